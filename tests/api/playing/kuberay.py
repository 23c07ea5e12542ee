"""KubeRay, played: what it would make and say of a RayService, written by the test."""

import itertools
from collections.abc import Mapping
from typing import Any

import yaml

from daybreak.api.common import names
from tests.api.admin import Admin

ORIGIN = {"ray.io/originated-from-crd": "RayService"}


def play_pod(
    admin: Admin, name: str, labels: Mapping[str, str], address: str = "127.0.0.1", **status: Any
) -> None:
    """A pod that runs at an address of this machine, in name only; `status` is what else it says."""
    spec = {"serviceAccountName": "default", "containers": [{"name": "played", "image": "played"}]}
    metadata = {"name": name, "labels": dict(labels)}
    admin.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    running = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    admin.merge("Pod", name, {"status": running | status}, subresource="status")


def head_labels(service: str, cluster: str) -> dict[str, str]:
    """Return the labels of a Ray cluster's head pod that Daybreak reads."""
    return {
        **names.owner_labels(service),
        names.RAY_CLUSTER_LABEL: cluster,
        names.RAY_NODE_TYPE_LABEL: "head",
    }


class PlayedKubeRay:
    """Does what KubeRay does in a namespace, one step at a time."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._workers = itertools.count()

    def cluster(self, service: str, suffix: str = "abcde") -> str:
        """Make the RayCluster of a RayService, with its labels, as KubeRay does. Returns its name."""
        ray_service = self._admin.get("RayService", service)
        name = f"{service}-{suffix}"
        metadata = ray_service["metadata"]
        self._admin.create(
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "metadata": {
                    "name": name,
                    "labels": metadata["labels"] | ORIGIN | {"ray.io/originated-from-cr-name": service},
                    "annotations": metadata.get("annotations") or {},
                    "ownerReferences": [
                        {
                            "apiVersion": "ray.io/v1",
                            "kind": "RayService",
                            "name": service,
                            "uid": metadata["uid"],
                            "controller": True,
                            "blockOwnerDeletion": True,
                        }
                    ],
                },
                "spec": ray_service["spec"]["rayClusterConfig"],
            }
        )
        return name

    def head(self, service: str, cluster: str, owner: str = "") -> str:
        """Make the head pod, running. Returns its name. `owner` names the owner, if it is not a service."""
        name = f"{cluster}-head"
        labels = head_labels(owner or service, cluster) | {"ray.io/group": "headgroup"}
        conditions = [_condition("Ready", True), _condition("PodScheduled", True)]
        play_pod(self._admin, name, labels, conditions=conditions)
        return name

    def status(self, service: str, cluster: str, application: str = "RUNNING", message: str = "") -> None:
        """Say in the RayService's status that `cluster` is active and how its application does."""
        ready = application == "RUNNING"
        generation = self._admin.get("RayService", service)["metadata"]["generation"]
        self._admin.merge(
            "RayService",
            service,
            {
                "status": {
                    "observedGeneration": generation,
                    "serviceStatus": "Running" if ready else "",
                    "numServeEndpoints": 1 if ready else 0,
                    "conditions": [_condition("Ready", ready), _condition("UpgradeInProgress", False)],
                    "activeServiceStatus": self._of_serve(service, cluster, application, message),
                }
            },
            subresource="status",
        )

    def pending(self, service: str, cluster: str, application: str = "RUNNING", message: str = "") -> None:
        """Report in the RayService's status that `cluster` starts in addition to the active one."""
        generation = self._admin.get("RayService", service)["metadata"]["generation"]
        found = self._of_serve(service, cluster, application, message)
        report = {"observedGeneration": generation, "pendingServiceStatus": found}
        self._admin.merge("RayService", service, {"status": report}, subresource="status")

    def _of_serve(self, service: str, cluster: str, application: str, message: str) -> dict[str, Any]:
        config = self._admin.get("RayService", service)["spec"]["serveConfigV2"]
        ready = application == "RUNNING"
        deployments = {
            name: {"status": "HEALTHY" if ready else "UNHEALTHY", "message": "" if ready else message}
            for name in _deployments(config)
        }
        return {
            "rayClusterName": cluster,
            "applicationStatuses": {
                yaml.safe_load(config)["applications"][0]["name"]: {
                    "status": application,
                    "message": message,
                    "serveDeploymentStatuses": deployments,
                }
            },
        }

    def worker(
        self, service: str, cluster: str, group: str, ready: bool = True, *, placed: bool = True
    ) -> str:
        """Make a worker pod of a group, ready or not, or without a node. Returns its name."""
        ray_cluster = self._admin.get("RayCluster", cluster)
        spec: dict[str, Any] = next(
            each for each in ray_cluster["spec"]["workerGroupSpecs"] if each["groupName"] == group
        )
        name = f"{cluster}-{group}-{next(self._workers)}"
        template = spec["template"]
        labels = (template.get("metadata") or {}).get("labels") or {}
        self._admin.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "labels": labels
                    | {"ray.io/cluster": cluster, "ray.io/group": group, "ray.io/node-type": "worker"},
                },
                "spec": template["spec"] | {"serviceAccountName": "default"},
            }
        )
        if placed:
            self.runs(name, ready)
        else:
            unplaced = _condition("PodScheduled", False) | {"reason": "Unschedulable"}
            self._admin.merge("Pod", name, {"status": {"conditions": [unplaced]}}, subresource="status")
        return name

    def runs(self, pod: str, ready: bool = True) -> None:
        """Say of a pod that it runs, ready or not."""
        conditions = [_condition("Ready", ready), _condition("PodScheduled", True)]
        status = {"phase": "Running", "conditions": conditions}
        self._admin.merge("Pod", pod, {"status": status}, subresource="status")


def _condition(kind: str, holds: bool) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": "Played",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def _deployments(config: str) -> list[str]:
    """Return Serve's names of the models' deployments in a Serve configuration."""
    application = yaml.safe_load(config)["applications"][0]
    if application["name"] != names.APPLICATION:
        return [each["name"] for each in application["deployments"]]
    models = [each["model_loading_config"]["model_id"] for each in application["args"]["llm_configs"]]
    return [names.serve_deployment(model) for model in models]
