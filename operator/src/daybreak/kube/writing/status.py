"""Writing what the operator has to say of an object of ours: its status, and events."""

import os
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

from daybreak.api.schema.resource import Resource
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.watching.cache import Cache
from daybreak.kube.writing.apply import MANAGER
from daybreak.manifests.keys import Key
from daybreak.manifests.resources import EVENTS

CONTROLLER = "daybreak.dev/operator"
_OTHERS = ("generation", "deletionTimestamp")
"""Metadata by which a change is seen that is not our own."""
NOTE_LIMIT = 1024
"""Longest note of an event, set by the API server, in bytes."""


async def write_status(
    api: Api, cache: Cache, resource: Resource, manifest: Mapping[str, Any], status: Mapping[str, Any]
) -> None:
    """Make `status` the status of this object in this version.

    Raises ApiError with `conflict` when the object has changed: what was decided on is no longer there. A
    replacement costs the API server less than an apply.
    """
    metadata = manifest["metadata"]
    path = resource.path(metadata["namespace"], metadata["name"], "status")
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion")},
        "status": dict(status),
    }
    with cache.writing(resource, Key(metadata["namespace"], metadata["name"])) as take:
        written = await api.request("update", resource, path, query=MANAGER, body=body)
        take(written, any(written["metadata"].get(name) != metadata.get(name) for name in _OTHERS))


async def read(api: Api, resource: Resource, key: Key) -> dict[str, Any] | None:
    """The object as the API server has it this moment, or None."""
    return await api.find(resource, resource.path(key.namespace, key.name))


async def emit(
    api: Api,
    resource: Resource,
    manifest: Mapping[str, Any],
    *,
    warning: bool,
    reason: str,
    action: str,
    note: str,
    now: datetime,
) -> None:
    """Post an event about an object.

    Its name comes from what it says, so that the same transition is posted once, however often that is tried.
    """
    metadata = manifest["metadata"]
    at = now.isoformat(timespec="microseconds").replace("+00:00", "Z")
    identity = sha256("\0".join((metadata["uid"], reason, note, at)).encode()).hexdigest()[:16]
    body = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {"name": f"{metadata['name']}.{identity}", "namespace": metadata["namespace"]},
        "eventTime": at,
        "reportingController": CONTROLLER,
        "reportingInstance": os.environ.get("POD_NAME", "daybreak-operator"),
        "action": action,
        "reason": reason,
        "type": "Warning" if warning else "Normal",
        "note": note.encode()[:NOTE_LIMIT].decode(errors="ignore"),
        "regarding": {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
    }
    try:
        await api.request("create", EVENTS, EVENTS.path(metadata["namespace"]), body=body)
    except ApiError as error:
        if not error.conflict:
            raise
