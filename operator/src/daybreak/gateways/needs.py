"""Needs of a namespace's workloads and routes from its gateway: Secrets, and ports of external hosts."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from daybreak.api.common.https import port_of
from daybreak.api.common.unstructured import Manifest, at, mapping, mappings, text
from daybreak.api.schema.resource import Resource
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key


@dataclass(frozen=True)
class Needs:
    """Requirements for a gateway."""

    secrets: frozenset[str] = frozenset()
    """Names of the Secrets with API keys of services, and of routes' external models."""
    ports: frozenset[int] = frozenset()
    """Ports of hosts outside the cluster that routes lead to."""


NOTHING = Needs()


class GatewayNeeds:
    """Reads the needs of each object once per version.

    A namespace may have a thousand services, and each new one triggers a reconcile of the gateway.

    Args:
        cache: State of the cluster.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._read: dict[tuple[str, Resource], dict[Key, tuple[int, Needs]]] = {}
        """Version and needs of each object, by namespace and kind."""

    def of(self, namespace: str, kinds: Collection[Resource]) -> Needs:
        """Return the combined needs of all objects of these kinds that the watches have reported."""
        return together(each for kind in kinds for each in self._of_kind(namespace, kind))

    def _of_kind(self, namespace: str, kind: Resource) -> set[Needs]:
        before = self._read.pop((namespace, kind), {})
        read = {}
        for key in self._cache.keys(kind, namespace):
            version = self._cache.version(kind, key) or 0
            known = before.get(key)
            if known is None or not version or known[0] != version:
                known = version, needs(self._cache.get(kind, key))
            read[key] = known
        if read:
            self._read[namespace, kind] = read
        return {each for _, each in read.values()}


def needs(manifest: Manifest | None) -> Needs:
    """Return the needs of a workload or a route from its namespace's gateway."""
    external = at(manifest, "spec", "externalFallback")
    requested = [
        mapping(key.get("secretRef")) for key in mappings(at(manifest, "spec", "access").get("apiKeys"))
    ]
    requested += [mapping(external.get(field)) for field in ("apiKeySecretRef", "caSecretRef")]
    secrets = frozenset(name for each in requested if (name := text(each.get("name"))))
    port = port_of(url) if (url := text(external.get("url"))) else None
    found = Needs(secrets, frozenset([port] if port else ()))
    return found if found != NOTHING else NOTHING


def together(found: Iterable[Needs]) -> Needs:
    """Return the combined needs of several objects."""
    every = list(found)
    return Needs(
        frozenset[str]().union(*(each.secrets for each in every)),
        frozenset[int]().union(*(each.ports for each in every)),
    )
