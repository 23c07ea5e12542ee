"""A minimal CustomResourceDefinition of LeaderWorkerSet, for tests: the project's own is 30 times as large.

Fields, defaults and allowed values are those of leaderworkerset.x-k8s.io/v1 in v0.10.0, as far as Daybreak
writes or reads them; what is not here the API server would drop, so that a field of another name shows. Of
the pods' templates nothing is checked. `tests/api/playing/leader_worker_set.py` plays its controller.
"""

from typing import Any

GROUP = "leaderworkerset.x-k8s.io"
NAME = f"leaderworkersets.{GROUP}"
_ANYTHING: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_NUMBER = {"type": "integer", "format": "int32"}
_NUMBER_OR_TEXT = {"x-kubernetes-int-or-string": True}


def _of(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _one_of(default: str, *others: str) -> dict[str, Any]:
    return {"type": "string", "enum": [default, *others], "default": default}


def crd() -> dict[str, Any]:
    """Return the CRD."""
    rolling = _of(
        partition=_NUMBER | {"default": 0},
        maxUnavailable=_NUMBER_OR_TEXT | {"default": 1},
        maxSurge=_NUMBER_OR_TEXT | {"default": 0},
    )
    pods = _of(
        "workerTemplate",
        size=_NUMBER | {"default": 1},
        restartPolicy=_one_of("RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None", "Default"),
        leaderTemplate=_ANYTHING,
        workerTemplate=_ANYTHING,
    )
    spec = _of(
        "leaderWorkerTemplate",
        replicas=_NUMBER | {"default": 1},
        leaderWorkerTemplate=pods,
        rolloutStrategy=_of(type=_one_of("RollingUpdate"), rollingUpdateConfiguration=rolling),
        startupPolicy=_one_of("LeaderCreated", "LeaderReady"),
    )
    status = _of(
        observedGeneration={"type": "integer", "format": "int64"}, replicas=_NUMBER, readyReplicas=_NUMBER
    )
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": _of(metadata={"type": "object"}, spec=spec, status=status)},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": "LeaderWorkerSet",
                "listKind": "LeaderWorkerSetList",
                "plural": "leaderworkersets",
                "singular": "leaderworkerset",
                "shortNames": ["lws"],
            },
            "versions": [version],
        },
    }
