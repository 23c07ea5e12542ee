"""The lease that lets one operator act, and one only.

`kubernetes.aio.leaderelection` was weighed and left: it measures with the wall clock, writes local times
without a zone, never gives the lease back, and waits for a request as long as the request likes, while it
believes itself leader. Two operators that act are worse than none, so here the holder counts from the
moment *before* its last successful renewal, on the monotonic clock, and stops well before others may begin.
"""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import structlog

from daybreak.api.common import names
from daybreak.kube import client, metrics
from daybreak.kube.client import APPLY, Api
from daybreak.kube.errors import ApiError
from daybreak.manifests.resources import LEASES

NAME = "daybreak-operator"
"""Name of the Lease, in the operator's own namespace; the chart's Role names it."""
LEASE_SECONDS = 30
"""How long others wait after the last renewal that they have seen."""
HELD_SECONDS = LEASE_SECONDS - 2 * client.REQUEST_SECONDS
"""How long the holder may act after its last renewal; the rest is for requests that are under way."""
RENEW_SECONDS = 3.0
REQUEST_SECONDS = 4.0
RELEASE_TRIES = 3
"""A last renewal that was under way may come between the reading and the writing."""

log = structlog.get_logger("daybreak.lease")


class _Taken(Exception):
    """Somebody else has the lease, or has had it since it was ours."""


class Lease:
    """One candidate for the lease.

    Args:
        api: The API server.
        namespace: Where the Lease lies.
        identity: Name of this candidate: the pod's. A container that starts again in its pod may go on at
            once, since the one before it has ended; another pod has to wait.
    """

    def __init__(self, api: Api, namespace: str, identity: str) -> None:
        self._api = api
        self._path = LEASES.path(namespace, NAME)
        self._namespace = namespace
        self._identity = identity
        self._renewed = float("-inf")
        self._transitions: int | None = None
        """How often the lease had changed hands when it came to us; None: it never has."""
        self._seen: tuple[Any, Any] | None = None
        self._seen_at = float("-inf")

    @property
    def held(self) -> bool:
        """Whether this candidate may act at this moment."""
        return time.monotonic() < self._renewed + HELD_SECONDS

    async def acquire(self) -> None:
        """Wait until the lease is ours."""
        waiting = False
        while not await self._try():
            if not waiting:
                log.info("waiting for the lease", holder=(self._seen or ("?",))[0])
                waiting = True
            await asyncio.sleep(RENEW_SECONDS)
        metrics.LEADER.set(1)
        log.info("lease acquired", identity=self._identity)

    async def keep(self) -> None:
        """Renew until somebody else has the lease, or has had it; then return.

        While the API server does not answer, the lease is soon not `held`, but it is not lost either.
        """
        try:
            while True:
                await asyncio.sleep(RENEW_SECONDS)
                await self._try()
        except _Taken:
            pass
        self._renewed = float("-inf")
        metrics.LEADER.set(0)
        log.error("lease lost", holder=(self._seen or ("?",))[0])

    async def release(self) -> None:
        """Give the lease back, so that the next operator need not wait for its end."""
        if not self.held:
            return
        self._renewed = float("-inf")
        metrics.LEADER.set(0)
        for left in reversed(range(RELEASE_TRIES)):
            try:
                await self._give_back()
                return
            except ApiError as error:
                if not error.conflict or not left:
                    log.warning("lease not given back", error=str(error))
                    return

    async def _give_back(self) -> None:
        found = await self._read()
        if found is not None and (found.get("spec") or {}).get("holderIdentity") == self._identity:
            await self._write(found, {**found["spec"], "holderIdentity": "", "leaseDurationSeconds": 1})

    async def _try(self) -> bool:
        """Take the lease when it is free, or renew it. Returns whether that was done."""
        began = time.monotonic()
        try:
            found = await self._read()
            spec = (found or {}).get("spec") or {}
            holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime")
            if (holder, renewed) != self._seen:
                # Others' clocks are not compared with ours: a lease counts from when its renewal was seen.
                self._seen, self._seen_at = (holder, renewed), began
            transitions = int(spec.get("leaseTransitions") or 0)
            others = holder not in ("", self._identity)
            if self._transitions is not None and (others or transitions > self._transitions):
                raise _Taken
            duration = float(spec.get("leaseDurationSeconds") or LEASE_SECONDS)
            if others and began < self._seen_at + duration:
                return False
            now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
            ours = holder == self._identity
            transitions += 0 if ours else 1
            changed = {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": LEASE_SECONDS,
                "acquireTime": spec.get("acquireTime") if ours else now,
                "renewTime": now,
                "leaseTransitions": transitions,
            }
            await self._write(found, changed)
        except ApiError as error:
            if not error.conflict:
                log.warning("lease not renewed", error=str(error))
            return False
        self._seen, self._seen_at = (self._identity, now), began
        self._renewed = began
        self._transitions = transitions
        return True

    async def _read(self) -> dict[str, Any] | None:
        return await self._api.find(LEASES, self._path, seconds=REQUEST_SECONDS)

    async def _write(self, found: dict[str, Any] | None, spec: dict[str, Any]) -> None:
        metadata = {"name": NAME, "namespace": self._namespace}
        body: dict[str, Any] = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": metadata,
            "spec": spec,
        }
        if found is None:
            # Made by apply, since a Role cannot name what `create` may make; not forced, so that of two
            # candidates at one moment the second is told of the first.
            query = {"fieldManager": f"{names.FIELD_MANAGER}-{self._identity}"}
            await self._api.request(
                "apply",
                LEASES,
                self._path,
                query=query,
                body=body,
                content_type=APPLY,
                seconds=REQUEST_SECONDS,
            )
            return
        # An update with the version that was read: of two candidates, one gets a conflict.
        body["metadata"] = {**found["metadata"], "resourceVersion": found["metadata"]["resourceVersion"]}
        await self._api.request("update", LEASES, self._path, body=body, seconds=REQUEST_SECONDS)
