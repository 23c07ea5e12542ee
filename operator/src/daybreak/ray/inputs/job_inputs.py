"""What a pod needs of what the spec of a job names: its claims, and its Secrets."""

from collections.abc import Iterable
from typing import Any

from daybreak.api.common import volume_names
from daybreak.api.jobs.places import claim_of
from daybreak.api.schema.kubernetes_types import SecretKeySource
from daybreak.ray.inputs.place import Place


def claim_places(uris: Iterable[str]) -> list[Place]:
    """The claims of these places, each once."""
    found: dict[str, Place] = {}
    for uri in uris:
        of_claim = claim_of(uri)
        if of_claim is not None:
            claim = of_claim[0]
            name, path = volume_names.rows_volume(claim), volume_names.rows_directory(claim)
            found[claim] = Place(
                {"name": name, "persistentVolumeClaim": {"claimName": claim}},
                {"name": name, "mountPath": path},
            )
    return list(found.values())


def config_map_file(volume: str, directory: str, config_map: str, key: str) -> Place:
    """One key of a ConfigMap, as a file of its name. One that is not there leaves the directory empty: the
    job then says so, where the kubelet would wait for it."""
    source = {"name": config_map, "items": [{"key": key, "path": key}], "optional": True}
    mount = {"name": volume, "mountPath": directory, "readOnly": True}
    return Place({"name": volume, "configMap": source}, mount)


def secret_variable(name: str, source: SecretKeySource) -> dict[str, Any]:
    """A variable from a Secret: it stays a reference, read by the kubelet."""
    reference = source.secret_key_ref.model_dump(by_alias=True, exclude_none=True)
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}
