"""Ports of the gateway.

Each workload of a namespace keeps one port, and so does a route with a dedicated address.
"""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

from daybreak.api.common import names
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import OwnerKey
from daybreak.manifests.resources import SERVICES


class PortAllocator:
    """Assigns each workload a port that is unique within its namespace, by its owner label.

    Assignments are stored in the Services for clients, from which a new operator reads them.

    Args:
        cache: Source of the Services for clients.
        freed: Called with a service that got no port, as soon as one is free.
        ports: First and last port. Defaults to the ports for workloads.
    """

    def __init__(
        self,
        cache: Cache,
        freed: Callable[[OwnerKey], None] = lambda _: None,
        ports: tuple[int, int] | None = None,
    ) -> None:
        self._cache = cache
        self._freed = freed
        self.ports = ports or names.GATEWAY_PORTS
        """First and last port."""
        self._taken: dict[str, dict[int, OwnerKey]] = {}
        """Workload of each port, by namespace."""
        self._given: dict[OwnerKey, int] = {}
        self._refused: dict[str, dict[OwnerKey, None]] = {}
        """Services without a port, by namespace; the one that has waited longest is first."""
        self._learned = False

    def of(self, service: OwnerKey) -> int | None:
        """Return the service's port, or None if all ports are taken."""
        if not self._learned:
            self._learn()
        port = self._given.get(service)
        if port is None:
            port = self._free(service)
            if port is None:
                self._refused.setdefault(service.namespace, {})[service] = None
            else:
                self._give(service, port)
        return port

    def given(self, namespace: str) -> list[OwnerKey]:
        """Return the owners of ports in a namespace."""
        if not self._learned:
            self._learn()
        return [*self._taken.get(namespace, {}).values()]

    def forget(self, service: OwnerKey) -> None:
        """Free the port of a deleted service for another one."""
        port = self._given.pop(service, None)
        if port is not None:
            self._taken[service.namespace].pop(port, None)
        refused = self._refused.get(service.namespace, {})
        refused.pop(service, None)
        # One port serves one waiting service. If that one is deleted as well, its own `forget` passes the
        # port on.
        if refused and self._free(service) is not None:
            self._freed(next(iter(refused)))

    def _learn(self) -> None:
        # If two Services share a port, which is an error, the older one keeps it: every operator decides
        # alike.
        for manifest in sorted(self._cache.all(SERVICES), key=_age):
            metadata = manifest["metadata"]
            name = names.labelled_owner(metadata.get("labels"))
            port = self._port(manifest)
            owner = OwnerKey.of_label(metadata["namespace"], name or "")
            if not name or owner.name != metadata["name"] or port is None:
                continue
            if port not in self._taken.get(owner.namespace, {}):
                self._give(owner, port)
        self._learned = True

    def _give(self, service: OwnerKey, port: int) -> None:
        self._given[service] = port
        self._refused.get(service.namespace, {}).pop(service, None)
        self._taken.setdefault(service.namespace, {})[port] = service

    def _free(self, service: OwnerKey) -> int | None:
        first, last = self.ports
        count = last - first + 1
        taken = self._taken.get(service.namespace, {})
        # The search starts at a hash of the name, so that most services get the same port again after
        # everything is recreated.
        start = zlib.crc32(service.label.encode()) % count
        for step in range(count):
            port = first + (start + step) % count
            if port not in taken:
                return port
        return None

    def _port(self, manifest: Mapping[str, Any]) -> int | None:
        first, last = self.ports
        for port in manifest["spec"].get("ports") or ():
            target = port.get("targetPort")
            if isinstance(target, int) and first <= target <= last:
                return target
        return None


def _age(service: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return a sort key: older Services first, then by name."""
    metadata = service["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["namespace"], metadata["name"]
