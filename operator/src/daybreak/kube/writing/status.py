"""Writes of statuses and events of Daybreak's objects."""

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
"""Metadata fields that reveal a change by another writer."""
NOTE_LIMIT = 1024
"""Maximum length of an event's note in bytes, set by the API server."""


async def write_status(
    api: Api, cache: Cache, resource: Resource, manifest: Mapping[str, Any], status: Mapping[str, Any]
) -> None:
    """Write the status of this version of an object.

    The write is an update, which costs the API server less than an apply.

    Raises:
        ApiError: With `conflict` if the object has changed, so that the basis of the decision is outdated.
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
    """Return the current object from the API server, or None."""
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

    The event's name is derived from its content, so that repeated attempts post a transition only once.
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
