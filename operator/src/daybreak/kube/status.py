"""Writing what the operator has to say of an LLMService: its status, and events."""

import os
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

from daybreak.kube.apply import MANAGER
from daybreak.kube.cache import Cache, Key
from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.resources import EVENTS, LLM_SERVICES

CONTROLLER = "daybreak.dev/operator"
_OTHERS = ("generation", "deletionTimestamp")
"""Metadata by which a change is seen that is not our own."""
NOTE_LIMIT = 1024
"""Longest note of an event, set by the API server, in bytes."""


async def write_status(api: Api, cache: Cache, service: Mapping[str, Any], status: Mapping[str, Any]) -> None:
    """Make `status` the status of this LLMService in this version.

    Raises ApiError with `conflict` when the LLMService has changed: what was decided on is no longer there. A
    replacement costs the API server less than an apply.
    """
    metadata = service["metadata"]
    path = LLM_SERVICES.path(metadata["namespace"], metadata["name"], "status")
    body = {
        "apiVersion": LLM_SERVICES.api_version,
        "kind": LLM_SERVICES.kind,
        "metadata": {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion")},
        "status": dict(status),
    }
    with cache.writing(LLM_SERVICES, Key(metadata["namespace"], metadata["name"])) as take:
        written = await api.request("update", LLM_SERVICES, path, query=MANAGER, body=body)
        take(written, any(written["metadata"].get(name) != metadata.get(name) for name in _OTHERS))


async def read_service(api: Api, key: Key) -> dict[str, Any] | None:
    """The LLMService as the API server has it this moment, or None."""
    return await api.find(LLM_SERVICES, LLM_SERVICES.path(key.namespace, key.name))


async def emit(
    api: Api, service: Mapping[str, Any], *, warning: bool, reason: str, action: str, note: str, now: datetime
) -> None:
    """Post an event about an LLMService.

    Its name comes from what it says, so that the same transition is posted once, however often that is tried.
    """
    metadata = service["metadata"]
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
            "apiVersion": LLM_SERVICES.api_version,
            "kind": LLM_SERVICES.kind,
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
