"""Kind as the API server serves it, and the API group of Daybreak's kinds."""

from dataclasses import dataclass

GROUP = "daybreak.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


@dataclass(frozen=True)
class Resource:
    """Kind as the API server serves it."""

    group: str
    """API group; empty for the core group."""
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """Return `group/version`, as in a manifest."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """Return the path of an object or of a list; without a namespace, of the whole cluster."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        within = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return (
            base
            + within
            + f"/{self.plural}"
            + (f"/{name}" if name else "")
            + (f"/{subresource}" if subresource else "")
        )
