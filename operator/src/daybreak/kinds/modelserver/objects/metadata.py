"""Names, labels and owner of the objects of a ModelServer."""

from typing import Any

from daybreak.api.common import names
from daybreak.api.common.resource import API_VERSION
from daybreak.api.modelserver.definition import KIND, ModelServer


def metadata(server: ModelServer, name: str, component: str = names.SERVER_COMPONENT) -> dict[str, Any]:
    """Metadata of an object that belongs to the ModelServer and goes with it."""
    return {
        "name": name,
        "namespace": server.namespace,
        "labels": names.labels(server.owner, component),
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "name": server.name,
                "uid": server.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def own_pods(server: ModelServer) -> dict[str, Any]:
    """What its pods are selected by."""
    return {"matchLabels": {names.SERVICE_LABEL: server.owner}}
