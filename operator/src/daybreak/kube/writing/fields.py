"""Single fields of an object that is not ours, set by server-side apply."""

from collections.abc import Mapping
from typing import Any

from daybreak.api.common.unstructured import Manifest
from daybreak.api.schema.resource import Resource
from daybreak.kube.client import APPLY, Api
from daybreak.manifests.keys import key_of


async def set_fields(
    api: Api, resource: Resource, live: Manifest, fields: Mapping[str, Any], manager: str
) -> dict[str, Any]:
    """Set fields of this object in this very version, whoever holds them. Returns the object as it is then.

    Raises ApiError: with `conflict` when it has changed or gone, with `refused` when it may not be.

    Args:
        api: The API server.
        resource: Its kind.
        live: As it was read.
        fields: What is set, by the names of the top level, such as `spec`.
        manager: Who holds these fields then. What it has set before and does not set now is taken back.
    """
    key, metadata = key_of(live), live["metadata"]
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        # With a uid, nothing is made where it has gone.
        "metadata": {name: metadata[name] for name in ("name", "namespace", "uid", "resourceVersion")},
        **fields,
    }
    return await api.request(
        "apply",
        resource,
        resource.path(key.namespace, key.name),
        query={"fieldManager": manager, "force": "true"},
        body=body,
        content_type=APPLY,
    )
