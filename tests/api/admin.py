"""The test's own hands on the API server, independent of the operator's client."""

import base64
import contextlib
import http.client
import json
import ssl
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import urllib3
import yaml

MERGE, APPLY, JSON_PATCH = (
    "application/merge-patch+json",
    "application/apply-patch+yaml",
    "application/json-patch+json",
)

_PATHS = {
    "LLMService": "/apis/daybreak.dev/v1alpha1/{}llmservices",
    "LLMBenchmark": "/apis/daybreak.dev/v1alpha1/{}llmbenchmarks",
    "ModelServer": "/apis/daybreak.dev/v1alpha1/{}modelservers",
    "ServeApplication": "/apis/daybreak.dev/v1alpha1/{}serveapplications",
    "LLMRoute": "/apis/daybreak.dev/v1alpha1/{}llmroutes",
    "LLMBatch": "/apis/daybreak.dev/v1alpha1/{}llmbatches",
    "RayService": "/apis/ray.io/v1/{}rayservices",
    "RayJob": "/apis/ray.io/v1/{}rayjobs",
    "RayCluster": "/apis/ray.io/v1/{}rayclusters",
    "Service": "/api/v1/{}services",
    "ServiceAccount": "/api/v1/{}serviceaccounts",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/{}networkpolicies",
    "PodDisruptionBudget": "/apis/policy/v1/{}poddisruptionbudgets",
    "Pod": "/api/v1/{}pods",
    "PersistentVolumeClaim": "/api/v1/{}persistentvolumeclaims",
    "Job": "/apis/batch/v1/{}jobs",
    "ControllerRevision": "/apis/apps/v1/{}controllerrevisions",
    "Deployment": "/apis/apps/v1/{}deployments",
    "LeaderWorkerSet": "/apis/leaderworkerset.x-k8s.io/v1/{}leaderworkersets",
    "StatefulSet": "/apis/apps/v1/{}statefulsets",
    "Role": "/apis/rbac.authorization.k8s.io/v1/{}roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/{}rolebindings",
    "ConfigMap": "/api/v1/{}configmaps",
    "Event": "/apis/events.k8s.io/v1/{}events",
    "Lease": "/apis/coordination.k8s.io/v1/{}leases",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
}
OWNED = ("ServiceAccount", "NetworkPolicy", "PodDisruptionBudget", "Service", "RayService")
"""Kinds of the objects that the operator creates for an LLMService, with names derived from the service's."""
ALL_OWNED = ("ControllerRevision", *OWNED)
"""All that it makes for one; a ControllerRevision is named by its content."""

T = TypeVar("T")


class Refused(Exception):
    """The API server's answer was an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.body = message


class Admin:
    """Plain requests with an administrator's kubeconfig: a client certificate or a token."""

    def __init__(self, kubeconfig: Path, namespace: str = "default") -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.namespace = namespace
        self._server = cluster["server"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        tls = ssl.create_default_context(cadata=authority)
        self.headers: dict[str, str] = {}
        """Headers of each request."""
        if "token" in user:
            self.headers = {"Authorization": f"Bearer {user['token']}"}
        else:
            with tempfile.NamedTemporaryFile() as pair:
                for part in ("client-certificate-data", "client-key-data"):
                    pair.write(base64.b64decode(user[part]))
                pair.flush()
                tls.load_cert_chain(pair.name)
        self._tls = tls
        self._pool = urllib3.PoolManager(maxsize=8, ssl_context=tls, timeout=30, retries=False)

    def within(self, namespace: str) -> "Admin":
        """Return an `Admin` for another namespace."""
        other = object.__new__(Admin)
        other.__dict__ = {**self.__dict__, "namespace": namespace}
        return other

    def connection(self) -> http.client.HTTPSConnection:
        """Open a connection for many requests with little work for each; the requests need `headers`."""
        address = urlsplit(self._server)
        return http.client.HTTPSConnection(
            address.hostname or "", address.port, timeout=30, context=self._tls
        )

    def raw(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        query: Mapping[str, str] | None = None,
    ) -> bytes:
        """One request; its answer's body. Raises ObjectRejected."""
        response = self._pool.request(
            method,
            self._server + path + (f"?{urlencode(query)}" if query else ""),
            body=json.dumps(body) if body is not None else None,
            headers={**self.headers, "Content-Type": content_type},
        )
        if response.status >= 300:
            raise Refused(response.status, response.data.decode())
        return response.data

    def request(self, method: str, path: str, *more: Any, **options: Any) -> Any:
        """One request; its answer's object."""
        return json.loads(self.raw(method, path, *more, **options))

    def path(self, kind: str, name: str = "") -> str:
        """Return the path of an object, or of the list of its kind."""
        return _PATHS[kind].format(f"namespaces/{self.namespace}/") + (f"/{name}" if name else "")

    def create(self, manifest: Mapping[str, Any]) -> Any:
        """Create an object."""
        return self.request("POST", self.path(manifest["kind"]), manifest)

    def get(self, kind: str, name: str) -> Any:
        """Return an object, or None."""
        try:
            return self.request("GET", self.path(kind, name))
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind: str, **query: str) -> Any:
        """Return the objects of a kind in the namespace."""
        return self.request("GET", self.path(kind), query=query)["items"]

    def events(self, kind: str, since: str, seconds: int, **query: str) -> Any:
        """Return what a watch of a kind reports within some seconds, each event with `type` and `object`.

        Args:
            kind: The kind.
            since: The resource version after which the watch begins.
            seconds: How long the watch lasts.
            query: Selectors of the watch.
        """
        watch = {"watch": "true", "resourceVersion": since, "timeoutSeconds": str(seconds)}
        lines = self.raw("GET", self.path(kind), query={**query, **watch}).splitlines()
        return [json.loads(line) for line in lines]

    def merge(self, kind: str, name: str, patch: Mapping[str, Any], subresource: str = "") -> Any:
        """Merge into an object, as `kubectl patch --type merge` does."""
        path = self.path(kind, name) + (f"/{subresource}" if subresource else "")
        return self.request("PATCH", path, patch, MERGE)

    def delete(self, kind: str, name: str, policy: str = "Background") -> None:
        """Delete an object."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": policy}
        self.raw("DELETE", self.path(kind, name), body)

    def writes(self) -> dict[tuple[str, str], int]:
        """Return how many writes the API server has answered, by resource and verb, from its own count."""
        counted: dict[tuple[str, str], int] = {}
        for line in self.raw("GET", "/metrics").decode().splitlines():
            if line.startswith("apiserver_request_total{"):
                labels, _, value = line.partition("{")[2].rpartition("} ")
                found = dict(part.split("=", 1) for part in labels.replace('"', "").split(","))
                if found["verb"] in ("POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"):
                    key = (found["resource"], found["verb"])
                    counted[key] = counted.get(key, 0) + int(float(value))
        return counted


@contextlib.contextmanager
def own_namespace(everywhere: Admin, prefix: str) -> Iterator[Admin]:
    """Yield an `Admin` in a new namespace, and delete the namespace at the end."""
    name = f"{prefix}-{uuid.uuid4().hex[:8]}"
    everywhere.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield everywhere.within(name)
    everywhere.delete("Namespace", name)


def eventually(what: str, look: Callable[[], T | None], seconds: float = 120.0, pause: float = 0.1) -> T:
    """Look until there is something to see; fail, saying what was waited for, when there never is."""
    until = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > until:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(pause)


def events_with(admin: Admin, *reasons: str) -> list[Any]:
    """Wait until the namespace has an event with each of these reasons; returns all of its events.

    The operator posts an event after it has written the status that the event is about.
    """

    def posted() -> list[Any]:
        found: list[Any] = admin.list("Event")
        return found if set(reasons) <= {each["reason"] for each in found} else []

    return eventually(f"events {', '.join(reasons)}", posted)
