"""Reports of the gateways of all namespaces about the requests to each service."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import aiohttp

from daybreak.api.common import names
from daybreak.api.common.unstructured import at, mapping, mappings, parse_time, text
from daybreak.api.schema.resource import Resource
from daybreak.gates.traffic import ModelReports
from daybreak.gateways.identity import GatewayIdentity
from daybreak.gateways.listener import LINE_LIMIT, GatewayListener, Prove
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import OwnerKey, gateway_key
from daybreak.manifests.resources import OF_GATEWAYS, PODS
from daybreak.protocol.tallies import GatewayTally, Tallies

SPREAD_SECONDS = 1.0
"""Time in seconds over which the services of a namespace are reconciled after a gateway appears or
disappears."""
SETTLE_SECONDS = 3.0
"""Maximum time in seconds that a new operator waits for reports of existing gateways before its first
decision."""

GONE_SECONDS = 60.0
"""Time in seconds after its deletion deadline for which a pod in deletion is assumed to exist."""

MOST_GONE = 64
"""Maximum number of starts of deleted gateways per namespace whose route reports are kept."""

Enqueue = Callable[[OwnerKey, float], None]


class GatewayReports:
    """Receives the reports of every gateway pod.

    Args:
        cache: Source of the pods.
        workloads: Kinds of workloads behind gateways.
        enqueue: Called with the owner key of a workload to reconcile and a delay in seconds.
    """

    def __init__(self, cache: Cache, workloads: Collection[Resource], enqueue: Enqueue) -> None:
        self._cache = cache
        self._workloads = workloads
        self._enqueue = enqueue
        self._session: aiohttp.ClientSession | None = None
        self._listeners: dict[str, dict[tuple[str, str], GatewayListener]] = {}
        """Listeners by namespace, then by address and UID of the pod."""
        self._gone: dict[str, dict[str, Tallies]] = {}
        """Route reports of deleted gateways, by namespace and start of the gateway."""
        self._closing: set[asyncio.Task[None]] = set()
        self.identity: GatewayIdentity | None = None
        """Verifies the identity of gateways; None trusts their labels."""
        self.on_tallies: Callable[[str], None] | None = None
        """Called with a namespace when one of its gateways reports the requests of routes' backends."""
        self.on_short: Callable[[str], None] | None = None
        """Called with a namespace when one of its gateways becomes nearly full, or no longer is."""
        self.on_enforced: Callable[[str], None] | None = None
        """Called with a namespace when one of its gateways has determined whether NetworkPolicies are
        enforced."""

    def received(self, workload: OwnerKey) -> tuple[ModelReports | None, ...]:
        """Return the report of each gateway in a workload's namespace; None for a disconnected gateway."""
        listeners = self._listeners.get(workload.namespace, {})
        return tuple(listener.observed(workload.label) for listener in listeners.values())

    def short(self, namespace: str) -> frozenset[str]:
        """Return the UIDs of a namespace's gateway pods that are nearly full."""
        listeners = self._listeners.get(namespace, {})
        return frozenset(uid for (_, uid), listener in listeners.items() if listener.short)

    def enforced(self, namespace: str) -> bool | None:
        """Return False if a gateway of a namespace bypassed NetworkPolicies, or None if no gateway knows."""
        listeners = self._listeners.get(namespace, {})
        known = [each.enforced for each in listeners.values() if each.enforced is not None]
        return all(known) if known else None

    def reported(self, namespace: str, route: str) -> tuple[GatewayTally, ...]:
        """Return the reports of each gateway of a namespace about a route, including deleted gateways."""
        found = []
        for gone, tallies in self._starts(namespace):
            found += [
                GatewayTally(start, gone, each[route]) for start, each in tallies.items() if route in each
            ]
        return tuple(found)

    def remains(self, namespace: str) -> bool:
        """Return True if a namespace has objects of a gateway, or gateway pods that finish held requests."""
        mine = gateway_key(namespace)
        return bool(self._listeners.get(namespace)) or any(
            self._cache.owned_by(mine, resource) for resource in OF_GATEWAYS
        )

    def runs(self, namespace: str) -> bool:
        """Return True if pods of a namespace's gateway may forward requests."""
        return bool(self._listeners.get(namespace))

    def notify(self, namespace: str) -> None:
        """Reconcile every service of a namespace after a change of its gateway."""
        self._all_of(namespace)

    def refresh(self, namespace: str) -> float | None:
        """Connect to the current gateway pods of a namespace.

        A stopping pod on a dead node is never removed, and no event shows that it can no longer forward
        requests.

        Returns:
            Delay in seconds until the next refresh, or None to wait for a change of a pod.
        """
        now = datetime.now(UTC)
        every = list(self._cache.owned_by(gateway_key(namespace), PODS))
        left = [_left(pod, now) for pod in every]
        pods = [pod for pod, seconds in zip(every, left, strict=True) if seconds is None or seconds > 0]
        desired = {(address, _uid(pod)) for pod in pods if (address := _address(pod))}
        listeners = self._listeners.setdefault(namespace, {})
        for address, uid in desired - set(listeners):
            url = f"http://{address}:{names.GATEWAY_HTTP_PORT}/state"
            listener = GatewayListener(
                url, self._connections(), self._reported(namespace), self._prove(namespace, uid)
            )
            listener.on_tallies = partial(self._tallied, namespace)
            listener.on_short = partial(self._shorter, namespace)
            listener.on_enforced = partial(self._tried, namespace)
            listeners[address, uid] = listener
        gone = set(listeners) - desired
        for address, uid in gone:
            if self.identity is not None:
                self.identity.forget(namespace, uid)
            listener = listeners.pop((address, uid))
            self._keep(namespace, listener)
            task = asyncio.create_task(listener.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
        if gone:
            self._all_of(namespace)
        return min((seconds for seconds in left if seconds is not None and seconds > 0), default=None)

    async def settle(self) -> None:
        """Wait up to `SETTLE_SECONDS` for the first reports of existing gateways."""
        waiting = [each.tried.wait() for all_of in self._listeners.values() for each in all_of.values()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                await asyncio.gather(*waiting)

    async def close(self) -> None:
        """Stop listening."""
        listeners = [each for all_of in self._listeners.values() for each in all_of.values()]
        await asyncio.gather(*(listener.close() for listener in listeners))
        if self._session is not None:
            await self._session.close()

    def _starts(self, namespace: str) -> Iterator[tuple[bool, Mapping[str, Tallies]]]:
        """Yield route reports by start of a gateway, and True if these starts have ended."""
        yield True, self._gone.get(namespace, {})
        for listener in self._listeners.get(namespace, {}).values():
            *ended, latest = listener.tallies or [""]
            yield True, {start: listener.tallies[start] for start in ended}
            yield False, {latest: listener.tallies[latest]} if latest else {}

    def _keep(self, namespace: str, listener: GatewayListener) -> None:
        """Keep the route reports of a gateway in deletion."""
        kept = self._gone.setdefault(namespace, {})
        kept.update(listener.tallies)
        for start in list(kept)[: max(0, len(kept) - MOST_GONE)]:
            del kept[start]
        if listener.tallies:
            self._tallied(namespace)

    def _tallied(self, namespace: str) -> None:
        if self.on_tallies is not None:
            self.on_tallies(namespace)

    def _shorter(self, namespace: str) -> None:
        if self.on_short is not None:
            self.on_short(namespace)

    def _tried(self, namespace: str) -> None:
        if self.on_enforced is not None:
            self.on_enforced(namespace)

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                read_bufsize=LINE_LIMIT,
            )
        return self._session

    def _prove(self, namespace: str, uid: str) -> Prove | None:
        return None if self.identity is None else partial(self.identity.prove, namespace, uid)

    def _reported(self, namespace: str) -> Callable[[set[str] | None], None]:
        def reported(services: set[str] | None) -> None:
            if services is None:
                self._all_of(namespace)
            else:
                for service in services:
                    owner = OwnerKey.of_label(namespace, service)
                    # A gateway is untrusted and may report anything, so ignore unknown names.
                    if any(
                        each.kind == owner.kind and self._cache.uid(each, owner.key) is not None
                        for each in self._workloads
                    ):
                        self._enqueue(owner, 0.0)

        return reported

    def _all_of(self, namespace: str) -> None:
        for kind in self._workloads:
            for key in self._cache.keys(kind, namespace):
                owner = OwnerKey(kind.kind, *key)
                self._enqueue(owner, random.uniform(0, SPREAD_SECONDS))  # noqa: S311 -- spread, not secrecy


def _left(pod: Mapping[str, Any], now: datetime) -> float | None:
    """Return the seconds until a pod in deletion counts as gone, or None if the pod is not being deleted."""
    at_latest = parse_time(text(at(pod, "metadata").get("deletionTimestamp")))
    return None if at_latest is None else (at_latest - now).total_seconds() + GONE_SECONDS


def _uid(pod: Mapping[str, Any]) -> str:
    return text(at(pod, "metadata").get("uid"))


def _address(pod: Mapping[str, Any]) -> str:
    """Return the IP of a gateway pod that may forward requests, also while it stops, or an empty text."""
    labels, status = at(pod, "metadata", "labels"), mapping(pod.get("status"))
    if labels.get(names.COMPONENT_LABEL) != names.GATEWAY_COMPONENT:
        return ""
    # The agent keeps running while HAProxy's container restarts, and after its end.
    haproxy = [
        each
        for each in mappings(status.get("containerStatuses"))
        if each.get("name") == names.GATEWAY_COMPONENT
    ]
    runs = not haproxy or any(mapping(each.get("state")).get("running") is not None for each in haproxy)
    ip = text(status.get("podIP"))
    if not ip or not runs or status.get("phase") in ("Succeeded", "Failed"):
        return ""
    return f"[{ip}]" if ":" in ip else ip
