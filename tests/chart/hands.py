"""Requests to the API server as a given user, over HTTP: a process of kubectl for each takes longer."""

import json
from typing import Any

from cluster import ControlPlane
from tests.api.admin import APPLY, JSON_PATCH, Admin, Refused
from tests.chart.tools import Manifest


class Denied(Exception):
    """The API server has refused a request; the text is the message of its answer."""


class Hands:
    """Requests to the API server as a given user.

    Args:
        plane: Where.
        user: In whose name; None: an administrator's.
        manager: Field manager of applied objects.
        kept: Whether the API server keeps requested changes; otherwise each request is a server-side dry-run.
    """

    def __init__(
        self, plane: ControlPlane, user: str | None, *, manager: str = "kubectl", kept: bool = False
    ) -> None:
        self._admin = Admin(plane.kubeconfig)
        if user is not None:
            self._admin.headers["Impersonate-User"] = user
        self._manager = manager
        self._query = {} if kept else {"dryRun": "All"}
        self._options = {} if kept else {"dryRun": ["All"]}

    def create(self, *manifests: Manifest) -> None:
        """Make objects. Raises Denied."""
        for each in manifests:
            self._ask("POST", each["kind"], _namespace(each), "", each, query=self._query)

    def apply(self, *manifests: Manifest) -> None:
        """Change or make objects by server-side apply. Raises Denied."""
        query = {**self._query, "fieldManager": self._manager, "force": "true"}
        for each in manifests:
            self._ask("PATCH", each["kind"], _namespace(each), _name(each), each, APPLY, query=query)

    def patch(self, kind: str, namespace: str, name: str, *operations: Manifest) -> None:
        """A JSON patch. Raises Denied."""
        self._ask("PATCH", kind, namespace, name, operations, JSON_PATCH, query=self._query)

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Delete an object. Raises Denied."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1", **self._options}
        self._ask("DELETE", kind, namespace, name, options)

    def _ask(self, verb: str, kind: str, namespace: str, name: str, *body: Any, **more: Any) -> None:
        try:
            self._admin.raw(verb, self._admin.within(namespace).path(kind, name), *body, **more)
        except Refused as error:
            raise Denied(json.loads(error.body)["message"]) from None


def _namespace(manifest: Manifest) -> str:
    return str(manifest["metadata"]["namespace"])


def _name(manifest: Manifest) -> str:
    return str(manifest["metadata"]["name"])
