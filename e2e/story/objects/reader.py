"""Reader of the cluster's objects over a kept-alive connection, with kubectl's names of resources.

Tests poll once per second while an engine starts. A kubectl process for each poll would take the engine's
cores.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.errors import ClusterError
from tests.api.admin import Admin, Refused

_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_NOT_FOUND = 404

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """Resource that the API server serves."""

    base: str
    """Path of the resource's group and version."""
    plural: str
    printed: str
    """Name of the resource in `kubectl get -o name`."""
    namespaced: bool

    def path(self, namespace: str, name: str) -> str:
        """Return the path of an object, or of the list if `name` is empty."""
        within = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{self.base}{within}/{self.plural}" + (f"/{name}" if name else "")


class Reader:
    """Reader that works like `kubectl get`.

    Args:
        kubeconfig: API server and user of the reader.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self._admin = Admin(kubeconfig)
        self._discovery = Admin(kubeconfig)
        self._discovery.headers = {**self._discovery.headers, "Accept": _DISCOVERY}
        self._known: dict[str, Resource] = {}

    def get(self, namespace: str, kinds: str, *which: str) -> Manifest | None:
        """Return one object, or None if it does not exist; or all objects of the kinds, under `items`.

        Args:
            namespace: Namespace of the objects.
            kinds: Names of the kinds, separated by commas.
            which: A name; or `-l` and a selector; or nothing.
        """
        if len(which) == 1:
            return self._ask(self._resource(kinds), namespace, which[0])
        return {"items": [each for _, each in self._listed(namespace, kinds, *which)]}

    def names(self, namespace: str, kinds: str, *which: str) -> list[str]:
        """Return the names of all objects of the kinds, as kind/name."""
        found = self._listed(namespace, kinds, *which)
        return [f"{resource.printed}/{each['metadata']['name']}" for resource, each in found]

    def _listed(self, namespace: str, kinds: str, *which: str) -> list[tuple[Resource, Manifest]]:
        query = {}
        if which:
            option, query["labelSelector"] = which
            if option != "-l":
                raise ValueError(f"not an option of this reader: {option}")
        found: list[tuple[Resource, Manifest]] = []
        for word in kinds.split(","):
            resource = self._resource(word)
            answer = self._ask(resource, namespace, "", query)
            if answer is None:
                raise ClusterError(f"the API server no longer serves {resource.plural}")
            found += [(resource, each) for each in answer["items"]]
        return found

    def _ask(
        self, resource: Resource, namespace: str, name: str, query: dict[str, str] | None = None
    ) -> Manifest | None:
        try:
            answer: Manifest = self._admin.request("GET", resource.path(namespace, name), query=query)
        except Refused as error:
            if error.status == _NOT_FOUND:
                return None
            raise ClusterError(str(error)) from error
        return answer

    def _resource(self, word: str) -> Resource:
        if word not in self._known:
            self._known = self._served()  # a CRD may have been added since
        if word not in self._known:
            raise ClusterError(f"the API server serves no {word}")
        return self._known[word]

    def _served(self) -> dict[str, Resource]:
        """Return every resource by its plural, singular and short names; like kubectl, the first one wins."""
        found: dict[str, Resource] = {}
        for root in ("/api", "/apis"):
            for group in self._discovery.request("GET", root)["items"]:
                name = group["metadata"].get("name", "")
                for version in group["versions"]:
                    base = "/".join([root, *([name] if name else []), version["version"]])
                    for each in version.get("resources", ()):
                        kind = each["responseKind"]["kind"].lower()
                        printed = f"{kind}.{name}" if name else kind
                        resource = Resource(base, each["resource"], printed, each["scope"] == "Namespaced")
                        for word in (each["resource"], each["singularResource"], *each.get("shortNames", ())):
                            found.setdefault(word, resource)
        return found
