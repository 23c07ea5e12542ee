"""What is kept of an object: the parts that somebody reads, so that thousands fit into little memory."""

from collections.abc import Callable, Mapping
from typing import Any

from daybreak.api.schema.resource import Resource
from daybreak.kube.writing import managed_fields
from daybreak.manifests import resources

Trim = Callable[[Mapping[str, Any]], dict[str, Any]]


def whole(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Everything but who manages which field; of that, only whether the object is as we made it."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "managedFields"}
    marks = managed_fields.marks(manifest["metadata"].get("managedFields"))
    if marks:
        metadata["managedFields"] = marks
    return {**manifest, "metadata": metadata}


def pod(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Identity, node, the containers' resources, and the status."""
    spec = manifest.get("spec") or {}
    kept = whole(manifest)
    kept["metadata"].pop("annotations", None)
    kept["spec"] = {
        "nodeName": spec.get("nodeName"),
        "nodeSelector": spec.get("nodeSelector") or {},
        "containers": [_container(container) for container in spec.get("containers") or []],
        "initContainers": [_container(container) for container in spec.get("initContainers") or []],
    }
    return kept


def node(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What decides whether a pod fits. The rest changes every few minutes and is of no interest."""
    metadata, spec, status = manifest["metadata"], manifest.get("spec") or {}, manifest.get("status") or {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": metadata["name"],
            "uid": metadata.get("uid", ""),
            "resourceVersion": metadata.get("resourceVersion", "0"),
            "labels": metadata.get("labels") or {},
        },
        "spec": {"taints": spec.get("taints") or [], "unschedulable": bool(spec.get("unschedulable"))},
        "status": {"allocatable": status.get("allocatable") or {}},
    }


def priority_class(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What pods of the class get."""
    kept = ("apiVersion", "kind", "value", "preemptionPolicy", "globalDefault")
    metadata = manifest["metadata"]
    return {
        **{key: manifest[key] for key in kept if key in manifest},
        "metadata": {key: metadata[key] for key in ("name", "uid", "resourceVersion") if key in metadata},
    }


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    return {key: container[key] for key in ("name", "image", "resources") if key in container}


def of(resource: Resource) -> Trim:
    """How objects of a kind are trimmed."""
    trims: dict[Resource, Trim] = {
        resources.PODS: pod,
        resources.NODES: node,
        resources.PRIORITY_CLASSES: priority_class,
    }
    return trims.get(resource, whole)
