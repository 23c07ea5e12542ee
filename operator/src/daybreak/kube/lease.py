"""The lease that lets exactly one operator act.

`kubernetes.aio.leaderelection` was rejected. It measures with the wall clock, writes local times without a
zone and never releases the lease. It also waits for a request without a limit while it considers itself the
leader.

Two active operators are worse than none. Therefore the holder counts from the time *before* its last
successful renewal, on the monotonic clock, and stops well before others may begin.
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
"""Name of the Lease in the operator's own namespace, which the chart's Role names."""
LEASE_SECONDS = 30
"""Time in seconds that other candidates wait after the last renewal that they observed."""
HELD_SECONDS = LEASE_SECONDS - 2 * client.REQUEST_SECONDS
"""Time in seconds for which the holder may act after its last renewal. The rest is for requests in flight."""
RENEW_SECONDS = 3.0
REQUEST_SECONDS = 4.0
RELEASE_TRIES = 3
"""Maximum number of attempts to release. A last renewal in flight may arrive between the read and the
write."""

log = structlog.get_logger("daybreak.lease")


class _Taken(Exception):
    """Another candidate has the lease, or has had it since this candidate held it."""


class Lease:
    """One candidate for the lease.

    Args:
        api: The API server.
        namespace: Namespace of the Lease.
        identity: Name of this candidate, which is the pod's name. A container that restarts in its pod may
            continue immediately, because the previous one has ended; another pod has to wait.
    """

    def __init__(self, api: Api, namespace: str, identity: str) -> None:
        self._api = api
        self._path = LEASES.path(namespace, NAME)
        self._namespace = namespace
        self._identity = identity
        self._renewed = float("-inf")
        self._transitions: int | None = None
        """Value of `leaseTransitions` when this candidate acquired the lease; None if it never has."""
        self._observed: tuple[Any, Any] | None = None
        self._observed_time = float("-inf")

    @property
    def held(self) -> bool:
        """True if this candidate may currently act."""
        return time.monotonic() < self._renewed + HELD_SECONDS

    async def acquire(self) -> None:
        """Wait until this candidate holds the lease."""
        waiting = False
        while not await self._try():
            if not waiting:
                log.info("Waiting for lease", holder=(self._observed or ("?",))[0])
                waiting = True
            await asyncio.sleep(RENEW_SECONDS)
        metrics.LEADER.set(1)
        log.info("Acquired lease", identity=self._identity)

    async def keep(self) -> None:
        """Renew the lease, and return after another candidate has acquired it.

        While the API server does not respond, the lease soon stops being `held`, but it is not lost.
        """
        try:
            while True:
                await asyncio.sleep(RENEW_SECONDS)
                await self._try()
        except _Taken:
            pass
        self._renewed = float("-inf")
        metrics.LEADER.set(0)
        log.error("Lost lease", holder=(self._observed or ("?",))[0])

    async def release(self) -> None:
        """Release the lease, so that the next operator does not wait for its expiration."""
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
                    log.warning("Failed to release lease", error=str(error))
                    return

    async def _give_back(self) -> None:
        found = await self._read()
        if found is not None and (found.get("spec") or {}).get("holderIdentity") == self._identity:
            await self._write(found, {**found["spec"], "holderIdentity": "", "leaseDurationSeconds": 1})

    async def _try(self) -> bool:
        """Acquire the lease if it is free, or renew it. Return True if that succeeded."""
        began = time.monotonic()
        try:
            found = await self._read()
            spec = (found or {}).get("spec") or {}
            holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime")
            if (holder, renewed) != self._observed:
                # Other candidates' clocks are not compared: a lease counts from the local time at which its
                # renewal was observed.
                self._observed, self._observed_time = (holder, renewed), began
            transitions = int(spec.get("leaseTransitions") or 0)
            others = holder not in ("", self._identity)
            if self._transitions is not None and (others or transitions > self._transitions):
                raise _Taken
            duration = float(spec.get("leaseDurationSeconds") or LEASE_SECONDS)
            if others and began < self._observed_time + duration:
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
                log.warning("Failed to renew lease", error=str(error))
            return False
        self._observed, self._observed_time = (self._identity, now), began
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
            # Created by apply, because a Role cannot restrict `create` by name. The apply is not forced, so
            # that of two concurrent candidates the second gets a conflict.
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
        # The update has the version that was read, so that one of two candidates gets a conflict.
        body["metadata"] = {**found["metadata"], "resourceVersion": found["metadata"]["resourceVersion"]}
        await self._api.request("update", LEASES, self._path, body=body, seconds=REQUEST_SECONDS)
