"""LeaderWorkerSet's controller, played: the observed behavior of its v0.10.0 for a server's groups.

Its StatefulSets are real, and so is their controller: names and labels of pods, revisions and the deletion of
dependents are as in a cluster. There is no rolling update here: a server changes its group with no replicas.
"""

from typing import Any

from tests.api.admin import APPLY, Admin

NAME = "leaderworkerset.sigs.k8s.io/name"
GROUP = "leaderworkerset.sigs.k8s.io/group-index"
WORKER = "leaderworkerset.sigs.k8s.io/worker-index"


class PlayedGroups:
    """Simulation of the controller for one LeaderWorkerSet, which acts when the test calls it.

    Args:
        admin: Hands in its namespace.
        name: Its name.
    """

    def __init__(self, admin: Admin, name: str) -> None:
        self._admin = admin
        self._name = name

    def look(self) -> bool:
        """Do what it would do now. Returns whether the LeaderWorkerSet is there."""
        found = self._admin.get("LeaderWorkerSet", self._name)
        if found is None:
            return False
        made = found["spec"]["leaderWorkerTemplate"]
        labels = {NAME: self._name, WORKER: "0"}
        self._stateful_set(self._name, found, found["spec"]["replicas"], made["leaderTemplate"], labels)
        for leader in self.leaders():
            if leader["metadata"].get("deletionTimestamp") or self._ends(leader):
                continue
            of_group = {GROUP: _index(leader)}
            if GROUP not in leader["metadata"]["labels"]:
                # Its webhook does it, when the pod is made.
                self._admin.merge("Pod", leader["metadata"]["name"], {"metadata": {"labels": of_group}})
            labels = {NAME: self._name, **of_group}
            owner, number = leader | {"apiVersion": "v1", "kind": "Pod"}, made["size"] - 1
            self._stateful_set(leader["metadata"]["name"], owner, number, made["workerTemplate"], labels)
        status = {"observedGeneration": found["metadata"]["generation"], "replicas": len(self.leaders())}
        self._admin.merge("LeaderWorkerSet", self._name, {"status": status}, subresource="status")
        return True

    def leaders(self) -> list[dict[str, Any]]:
        """Return the leaders' pods."""
        return self._pods(f"{WORKER}=0")

    def _pods(self, label: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._admin.list("Pod", labelSelector=f"{NAME}={self._name},{label}")
        return found

    def _ends(self, leader: dict[str, Any]) -> bool:
        """Return True if a leader is deleted, after its workers, because one of them has restarted.

        This is the restart policy RecreateGroupOnPodRestart.
        """
        group = self._pods(f"{GROUP}={_index(leader)}")
        statuses = [each for pod in group for each in pod["status"].get("containerStatuses", ())]
        if not any(each["restartCount"] for each in statuses):
            return False
        self._admin.delete("Pod", leader["metadata"]["name"], "Foreground")
        return True

    def _stateful_set(
        self,
        name: str,
        owner: dict[str, Any],
        replicas: int,
        template: dict[str, Any],
        labels: dict[str, str],
    ) -> None:
        metadata = template["metadata"] | {"labels": template["metadata"]["labels"] | labels}
        spec = {
            "serviceName": self._name,
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": template | {"metadata": metadata},
            # Workers count from 1.
            "ordinals": {"start": int(owner["kind"] == "Pod")},
        }
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        path = self._admin.path("StatefulSet", name)
        body = {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": name, "labels": labels, "ownerReferences": [reference]},
            "spec": spec,
        }
        self._admin.request("PATCH", path, body, APPLY, query={"fieldManager": "lws", "force": "true"})


def _index(leader: dict[str, Any]) -> str:
    """Return the index of the group that a pod leads."""
    return str(leader["metadata"]["name"].rpartition("-")[2])
