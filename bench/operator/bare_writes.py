"""The same writes by a loader that does nothing else: what the API server and etcd take on this machine now.

For each LLMService the same requests with the same objects, one after the other, over as many connections as
the loader has. Nobody watches, and nothing is decided. It is no lower bound: each connection waits for its
answers.
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
    """What was written for one LLMService.

    Attributes:
        name: Its name, which is also in the names of its objects.
        created: Kind and text of what is created, the LLMService first.
        status: Its status.
    """

    name: str
    created: tuple[tuple[str, str], ...]
    status: Any


def read(admin: Admin, name: str) -> Written:
    """What an operator has written for an LLMService, which waits for its model."""
    service = admin.get("LLMService", name)
    status = service["status"]
    created = [("LLMService", _text(service))]
    for kind in ALL_OWNED:
        (found,) = admin.list(kind, labelSelector=f"app.kubernetes.io/instance={name}")
        # An item of a list does not say what it is.
        created.append((kind, _text(admin.get(kind, found["metadata"]["name"]))))
    return Written(name, tuple(created), status)


def write(admin: Admin, written: Written, names: list[str]) -> float:
    """Write the same for other LLMServices; returns the seconds that it took."""

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
    """An object as it was sent: without what the API server has added."""
    added = {"spec": ("clusterIP", "clusterIPs"), "metadata": _BY_THE_API_SERVER}
    sent = {part: value for part, value in live.items() if part != "status"}
    for part, fields in added.items():
        if part in sent:
            sent[part] = {field: value for field, value in sent[part].items() if field not in fields}
    return json.dumps(sent)
