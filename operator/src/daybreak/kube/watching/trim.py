"""Stored parts of objects: the fields that the operator reads, to keep thousands in little memory."""

from collections.abc import Callable, Mapping
from typing import Any

from daybreak.api.schema.resource import Resource
from daybreak.kube.writing import managed_fields
from daybreak.manifests import resources

Trim = Callable[[Mapping[str, Any]], dict[str, Any]]


def whole(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object without `managedFields`, except for the record that Daybreak created it."""
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "managedFields"}
    marks = managed_fields.marks(manifest["metadata"].get("managedFields"))
    if marks:
        metadata["managedFields"] = marks
    return {**manifest, "metadata": metadata}


def pod(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return identity, node, the containers' resources and the status of a pod."""
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
    """Return the fields of a node that decide whether a pod fits.

    Its other fields change every few minutes.
    """
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
    """Return the fields of a PriorityClass that apply to its pods."""
    kept = ("apiVersion", "kind", "value", "preemptionPolicy", "globalDefault")
    metadata = manifest["metadata"]
    return {
        **{key: manifest[key] for key in kept if key in manifest},
        "metadata": {key: metadata[key] for key in ("name", "uid", "resourceVersion") if key in metadata},
    }


def _container(container: Mapping[str, Any]) -> dict[str, Any]:
    return {key: container[key] for key in ("name", "image", "resources") if key in container}


def of(resource: Resource) -> Trim:
    """Return the trim function for objects of a kind."""
    trims: dict[Resource, Trim] = {
        resources.PODS: pod,
        resources.NODES: node,
        resources.PRIORITY_CLASSES: priority_class,
    }
    return trims.get(resource, whole)
