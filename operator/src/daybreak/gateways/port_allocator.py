"""The gateway's ports: every workload of a namespace has one, and keeps it; so has a route's own address."""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

from daybreak.api.common import names
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import OwnerKey
from daybreak.manifests.resources import SERVICES


class PortAllocator:
    """Gives every workload a port of its own within its namespace, by what stands for it in labels.

    What is given out is kept in the front Services themselves: a new operator reads it there.

    Args:
        cache: Where the front Services are known from.
        freed: Called with a service that got no port, when there is one for it.
        ports: The first and the last one; None: those for workloads.
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
        """The first and the last one."""
        self._taken: dict[str, dict[int, OwnerKey]] = {}
        """By namespace: port → the workload."""
        self._given: dict[OwnerKey, int] = {}
        self._refused: dict[str, dict[OwnerKey, None]] = {}
        """By namespace: services that got none, the one that waits longest first."""
        self._learned = False

    def of(self, service: OwnerKey) -> int | None:
        """The service's port; None when all of them are taken."""
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
        """Who has a port in a namespace."""
        if not self._learned:
            self._learn()
        return [*self._taken.get(namespace, {}).values()]

    def forget(self, service: OwnerKey) -> None:
        """The service has gone: its port may be given to another one."""
        port = self._given.pop(service, None)
        if port is not None:
            self._taken[service.namespace].pop(port, None)
        refused = self._refused.get(service.namespace, {})
        refused.pop(service, None)
        # One port, one service: should that one have gone too, it is forgotten in its turn.
        if refused and self._free(service) is not None:
            self._freed(next(iter(refused)))

    def _learn(self) -> None:
        # Where two have one port, which should not be, the older one keeps it: every operator sees it so.
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
        # The name says where the search begins, so that most services get the same port again whenever
        # everything is made anew.
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
    """Sorts the older one first, and by name what is equally old."""
    metadata = service["metadata"]
    return metadata.get("creationTimestamp") or "", metadata["namespace"], metadata["name"]
