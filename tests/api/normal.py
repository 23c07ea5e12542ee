"""Objects without what differs from one making to the next: what is left can be compared."""

import json
from collections.abc import Mapping
from typing import Any

from tests.api.admin import Admin

_METADATA = ("name", "labels", "annotations", "finalizers")
_ASSIGNED = ("clusterIP", "clusterIPs")


def normal(admin: Admin, objects: Mapping[str, Any]) -> dict[str, Any]:
    """The objects without identities, versions, times and addresses, and with one word for the namespace."""
    text = json.dumps({kind: _one(manifest) for kind, manifest in objects.items()})
    compared: dict[str, Any] = json.loads(text.replace(admin.namespace, "NAMESPACE"))
    return compared


def _one(manifest: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {name: manifest["metadata"][name] for name in _METADATA if name in manifest["metadata"]}
    # The digest covers the owner's uid.
    annotations = {
        name: text for name, text in metadata.get("annotations", {}).items() if name != "daybreak.dev/applied"
    }
    owners = [{**owner, "uid": ""} for owner in manifest["metadata"].get("ownerReferences") or ()]
    spec = {name: value for name, value in (manifest.get("spec") or {}).items() if name not in _ASSIGNED}
    rest = {name: value for name, value in manifest.items() if name not in ("metadata", "spec", "status")}
    return {**rest, "metadata": {**metadata, "annotations": annotations, "owners": owners}, "spec": spec}
