"""Server-side apply of single fields in objects that Daybreak does not own."""

from collections.abc import Mapping
from typing import Any

from daybreak.api.common.unstructured import Manifest
from daybreak.api.schema.resource import Resource
from daybreak.kube.client import APPLY, Api
from daybreak.manifests.keys import key_of


async def set_fields(
    api: Api, resource: Resource, live: Manifest, fields: Mapping[str, Any], manager: str
) -> dict[str, Any]:
    """Set fields of exactly this version of an object, and take them over from other managers.

    Args:
        api: The API server.
        resource: Kind of the object.
        live: The object as it was read.
        fields: Fields to set, by top-level name such as `spec`.
        manager: Manager of the fields. Fields that it set before and does not set now are removed.

    Returns:
        The object after the write.

    Raises:
        ApiError: With `conflict` if the object has changed or is gone, and with `refused` if the write is not
            allowed.
    """
    key, metadata = key_of(live), live["metadata"]
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        # With a UID, the API server does not recreate a deleted object.
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
