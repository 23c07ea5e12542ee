"""Pod inputs that the spec of a job names: PVCs and Secrets."""

from collections.abc import Iterable
from typing import Any

from daybreak.api.common import volume_names
from daybreak.api.jobs.places import claim_of
from daybreak.api.schema.kubernetes_types import SecretKeySource
from daybreak.ray.inputs.place import Place


def claim_places(uris: Iterable[str]) -> list[Place]:
    """Return the volumes of the PVCs in these URIs, each once."""
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
    """Return a volume with one key of a ConfigMap, as a file of the same name.

    A missing key leaves the directory empty, so that the job reports it. Otherwise the kubelet would wait for
    it.
    """
    source = {"name": config_map, "items": [{"key": key, "path": key}], "optional": True}
    mount = {"name": volume, "mountPath": directory, "readOnly": True}
    return Place({"name": volume, "configMap": source}, mount)


def secret_variable(name: str, source: SecretKeySource) -> dict[str, Any]:
    """Return a variable that refers to a Secret, which the kubelet reads."""
    reference = source.secret_key_ref.model_dump(by_alias=True, exclude_none=True)
    return {"name": name, "valueFrom": {"secretKeyRef": reference}}
