"""The same writes by a loader that does nothing else: what the API server and etcd take on this machine now.

For each LLMService the same requests with the same objects, one after the other, over a few connections, and
nobody watches: no program that writes these objects could be quicker.
"""

import concurrent.futures
import copy
import http.client
import json
import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.api.admin import OWNED, Admin

_BY_THE_API_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
_JSON = {"Content-Type": "application/json"}


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
    created = [("LLMService", _text(service))]
    for kind in OWNED:
        (found,) = admin.list(kind, labelSelector=f"app.kubernetes.io/instance={name}")
        first = {"apiVersion": _api_version(admin, kind), "kind": kind}
        created.append((kind, _text(first | found)))
    return Written(name, tuple(created), service["status"])


def write(admin: Admin, written: Written, names: list[str], connections: int) -> float:
    """Write the same for other LLMServices; returns the seconds that it took."""
    shares = [names[first::connections] for first in range(connections)]
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(connections) as pool:
        list(pool.map(partial(_write, admin, written), shares))
    return time.monotonic() - began


def _write(admin: Admin, written: Written, names: list[str]) -> None:
    with closing(admin.connection()) as connection:
        for name in names:
            answers = [
                _ask(connection, "POST", admin.path(kind), text.replace(written.name, name))
                for kind, text in written.created
            ]
            made = json.loads(answers[0])
            metadata = {field: made["metadata"][field] for field in ("name", "uid", "resourceVersion")}
            status = made | {"metadata": metadata, "status": written.status}
            del status["spec"]
            _ask(connection, "PUT", admin.path("LLMService", name) + "/status", json.dumps(status))


def _ask(connection: http.client.HTTPConnection, method: str, path: str, body: str) -> bytes:
    connection.request(method, path, body.encode(), _JSON)
    answer = connection.getresponse()
    said = answer.read()
    assert answer.status < 300, said  # noqa: S101 -- no result without
    return said


def _text(live: dict[str, Any]) -> str:
    """An object as it was sent: without what the API server has added."""
    sent = copy.deepcopy(live)
    for field in _BY_THE_API_SERVER:
        sent["metadata"].pop(field, None)
    sent.pop("status", None)
    for field in ("clusterIP", "clusterIPs"):
        sent.get("spec", {}).pop(field, None)
    return json.dumps(sent)


def _api_version(admin: Admin, kind: str) -> str:
    """A list says once for all of its items what they are."""
    found: str = admin.request("GET", admin.path(kind), query={"limit": "1"})["apiVersion"]
    return found
