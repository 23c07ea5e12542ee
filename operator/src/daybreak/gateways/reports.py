"""What the gateways of all namespaces say of the requests to each service."""

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
from daybreak.gates.traffic import Heard
from daybreak.gateways.identity import GatewayIdentity
from daybreak.gateways.listener import LINE_LIMIT, GatewayListener, Prove
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import OwnerKey, gateway_key
from daybreak.manifests.resources import OF_GATEWAYS, PODS
from daybreak.protocol.tallies import Tallies, Told

SPREAD_SECONDS = 1.0
"""Over how long the services of a namespace are looked at again when a gateway comes or goes."""
SETTLE_SECONDS = 3.0
"""How long a new operator waits to hear those gateways that are there, before it judges anything."""

GONE_SECONDS = 60.0
"""How long after its time a pod that is being deleted is still believed to be there."""

MOST_GONE = 64
"""Gateways of a namespace that have gone, of which it is kept what they have told of routes."""

Enqueue = Callable[[OwnerKey, float], None]


class GatewayReports:
    """Listens to every gateway pod.

    Args:
        cache: Where the pods are known from.
        workloads: The kinds that stand behind gateways.
        enqueue: Called with what stands for workloads to be looked at again, in so many seconds.
    """

    def __init__(self, cache: Cache, workloads: Collection[Resource], enqueue: Enqueue) -> None:
        self._cache = cache
        self._workloads = workloads
        self._enqueue = enqueue
        self._session: aiohttp.ClientSession | None = None
        self._listeners: dict[str, dict[tuple[str, str], GatewayListener]] = {}
        """By namespace, then by address and uid of the pod."""
        self._gone: dict[str, dict[str, Tallies]] = {}
        """What gateways have told of routes that are not there any more, by namespace and their start."""
        self._closing: set[asyncio.Task[None]] = set()
        self.identity: GatewayIdentity | None = None
        """Says whether gateways are who they seem; None: they are believed by their labels."""
        self.on_tallies: Callable[[str], None] | None = None
        """Called with a namespace of which a gateway has told what backends of routes have got."""
        self.on_short: Callable[[str], None] | None = None
        """Called with a namespace of which a gateway has become nearly full, or is not any more."""
        self.on_enforced: Callable[[str], None] | None = None
        """Called with a namespace of which a gateway has learned whether NetworkPolicies are enforced."""

    def heard(self, workload: OwnerKey) -> tuple[Heard | None, ...]:
        """What each gateway of its namespace says of a workload; None: that one is not heard."""
        listeners = self._listeners.get(workload.namespace, {})
        return tuple(listener.seen(workload.label) for listener in listeners.values())

    def short(self, namespace: str) -> frozenset[str]:
        """The uids of those gateway pods of a namespace that are nearly full."""
        listeners = self._listeners.get(namespace, {})
        return frozenset(uid for (_, uid), listener in listeners.items() if listener.short)

    def enforced(self, namespace: str) -> bool | None:
        """Return False if a gateway of a namespace got past NetworkPolicies, or None if no gateway knows."""
        listeners = self._listeners.get(namespace, {})
        known = [each.enforced for each in listeners.values() if each.enforced is not None]
        return all(known) if known else None

    def told(self, namespace: str, route: str) -> tuple[Told, ...]:
        """What each gateway of a namespace has told of a route, those that have gone included."""
        found = []
        for gone, tallies in self._starts(namespace):
            found += [Told(start, gone, each[route]) for start, each in tallies.items() if route in each]
        return tuple(found)

    def remains(self, namespace: str) -> bool:
        """Whether anything of a namespace's gateway is there: objects, or pods that finish what they hold."""
        mine = gateway_key(namespace)
        return bool(self._listeners.get(namespace)) or any(
            self._cache.owned_by(mine, resource) for resource in OF_GATEWAYS
        )

    def runs(self, namespace: str) -> bool:
        """Whether pods of a namespace's gateway may let requests through."""
        return bool(self._listeners.get(namespace))

    def tell(self, namespace: str) -> None:
        """Have every service of a namespace looked at: something about its gateway has changed."""
        self._all_of(namespace)

    def refresh(self, namespace: str) -> float | None:
        """Listen to those gateway pods of a namespace that are there now.

        Returns when to do so again, in seconds: a pod that stops, on a node that is dead, is never taken
        away, and nothing tells that it cannot let anybody through any more. None: when a pod changes.
        """
        now = datetime.now(UTC)
        every = list(self._cache.owned_by(gateway_key(namespace), PODS))
        left = [_left(pod, now) for pod in every]
        pods = [pod for pod, seconds in zip(every, left, strict=True) if seconds is None or seconds > 0]
        wanted = {(address, _uid(pod)) for pod in pods if (address := _address(pod))}
        listeners = self._listeners.setdefault(namespace, {})
        for address, uid in wanted - set(listeners):
            url = f"http://{address}:{names.GATEWAY_HTTP_PORT}/state"
            listener = GatewayListener(
                url, self._connections(), self._told(namespace), self._prove(namespace, uid)
            )
            listener.on_tallies = partial(self._tallied, namespace)
            listener.on_short = partial(self._shorter, namespace)
            listener.on_enforced = partial(self._tried, namespace)
            listeners[address, uid] = listener
        gone = set(listeners) - wanted
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
        """Wait a moment for those that are there to be heard."""
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
        """What gateways have told of routes, by their starts; and whether those have ended."""
        yield True, self._gone.get(namespace, {})
        for listener in self._listeners.get(namespace, {}).values():
            *ended, latest = listener.tallies or [""]
            yield True, {start: listener.tallies[start] for start in ended}
            yield False, {latest: listener.tallies[latest]} if latest else {}

    def _keep(self, namespace: str, listener: GatewayListener) -> None:
        """Keep what a gateway has told that goes."""
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

    def _told(self, namespace: str) -> Callable[[set[str] | None], None]:
        def told(services: set[str] | None) -> None:
            if services is None:
                self._all_of(namespace)
            else:
                for service in services:
                    owner = OwnerKey.of_label(namespace, service)
                    # A gateway may say anything, and names that nobody knows are nobody's business.
                    if any(
                        each.kind == owner.kind and self._cache.uid(each, owner.key) is not None
                        for each in self._workloads
                    ):
                        self._enqueue(owner, 0.0)

        return told

    def _all_of(self, namespace: str) -> None:
        for kind in self._workloads:
            for key in self._cache.keys(kind, namespace):
                owner = OwnerKey(kind.kind, *key)
                self._enqueue(owner, random.uniform(0, SPREAD_SECONDS))  # noqa: S311 -- spread, not secrecy


def _left(pod: Mapping[str, Any], now: datetime) -> float | None:
    """Seconds until a pod that is being deleted should be gone for good; None: it is not being deleted."""
    at_latest = parse_time(text(at(pod, "metadata").get("deletionTimestamp")))
    return None if at_latest is None else (at_latest - now).total_seconds() + GONE_SECONDS


def _uid(pod: Mapping[str, Any]) -> str:
    return text(at(pod, "metadata").get("uid"))


def _address(pod: Mapping[str, Any]) -> str:
    """The IP of a gateway pod that may let requests through, also while it stops; empty when it cannot."""
    labels, status = at(pod, "metadata", "labels"), mapping(pod.get("status"))
    if labels.get(names.COMPONENT_LABEL) != names.GATEWAY_COMPONENT:
        return ""
    # Its agent lives on while HAProxy's container is started again, and after its end.
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
