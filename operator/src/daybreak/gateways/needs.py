"""What workloads and routes of a namespace need of its gateway: Secrets, and ways to hosts outside."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from daybreak.api.common.https import port_of
from daybreak.api.common.unstructured import Manifest, at, mapping, mappings, text
from daybreak.api.schema.resource import Resource
from daybreak.kube.watching.cache import Cache
from daybreak.manifests.keys import Key


@dataclass(frozen=True)
class Needs:
    """What is needed of a gateway."""

    secrets: frozenset[str] = frozenset()
    """Names of the Secrets with API keys of services, and of external models of routes."""
    ports: frozenset[int] = frozenset()
    """Ports of the hosts outside of the cluster that routes lead to."""


NOTHING = Needs()


class GatewayNeeds:
    """Reads each object once for each of its versions.

    A namespace may have a thousand services, and its gateway is looked at with every one that comes.

    Args:
        cache: What is known of the cluster.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._read: dict[tuple[str, Resource], dict[Key, tuple[int, Needs]]] = {}
        """By namespace and kind: what each object needs, in which version."""

    def of(self, namespace: str, kinds: Collection[Resource]) -> Needs:
        """What the objects of these kinds need together, as far as the watches have told."""
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
    """What a workload or a route needs of its namespace's gateway."""
    external = at(manifest, "spec", "externalFallback")
    asked = [mapping(key.get("secretRef")) for key in mappings(at(manifest, "spec", "access").get("apiKeys"))]
    asked += [mapping(external.get(field)) for field in ("apiKeySecretRef", "caSecretRef")]
    secrets = frozenset(name for each in asked if (name := text(each.get("name"))))
    port = port_of(url) if (url := text(external.get("url"))) else None
    found = Needs(secrets, frozenset([port] if port else ()))
    return found if found != NOTHING else NOTHING


def together(found: Iterable[Needs]) -> Needs:
    """What several objects need."""
    every = list(found)
    return Needs(
        frozenset[str]().union(*(each.secrets for each in every)),
        frozenset[int]().union(*(each.ports for each in every)),
    )
