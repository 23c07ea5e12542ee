"""An operator's writes, repeated by a minimal loader: speed of the API server and etcd on this machine now.

For each LLMService, the loader sends the same requests with the same objects in sequence, over all of its
connections. Nothing watches, and nothing is decided. The result is no lower bound, because each connection
waits for its answers.
"""

import json
import time
from dataclasses import dataclass
from typing import Any

from bench.operator.loader import Send, spread
from tests.api.admin import ALL_OWNED, Admin

_BY_THE_API_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


@dataclass(frozen=True)
class Written:
    """Objects that the operator wrote for one LLMService.

    Attributes:
        name: Name of the LLMService, which is also in the names of its objects.
        created: Kind and text of the created objects, the LLMService first.
        status: Status of the LLMService.
    """

    name: str
    created: tuple[tuple[str, str], ...]
    status: Any


def read(admin: Admin, name: str) -> Written:
    """Return the objects that an operator has written for an LLMService that waits for its model."""
    service = admin.get("LLMService", name)
    status = service["status"]
    created = [("LLMService", _text(service))]
    for kind in ALL_OWNED:
        (found,) = admin.list(kind, labelSelector=f"app.kubernetes.io/instance={name}")
        # Items of a list have no kind and no API version.
        created.append((kind, _text(admin.get(kind, found["metadata"]["name"]))))
    return Written(name, tuple(created), status)


def write(admin: Admin, written: Written, names: list[str]) -> float:
    """Write the same objects for other LLMServices, and return the seconds that the writes took."""

    def one(send: Send, name: str) -> None:
        made, *_ = [
            send("POST", admin.path(kind), text.replace(written.name, name).encode())
            for kind, text in written.created
        ]
        service = json.loads(made)
        metadata = {field: service["metadata"][field] for field in ("name", "uid", "resourceVersion")}
        body = service | {"metadata": metadata, "status": written.status}
        del body["spec"]
        send("PUT", admin.path("LLMService", name) + "/status", json.dumps(body).encode())

    began = time.monotonic()
    spread(admin, one, names)
    return time.monotonic() - began


def _text(live: dict[str, Any]) -> str:
    """Return an object as it was sent, without the fields that the API server adds."""
    added = {"spec": ("clusterIP", "clusterIPs"), "metadata": _BY_THE_API_SERVER}
    sent = {part: value for part, value in live.items() if part != "status"}
    for part, fields in added.items():
        if part in sent:
            sent[part] = {field: value for field, value in sent[part].items() if field not in fields}
    return json.dumps(sent)
