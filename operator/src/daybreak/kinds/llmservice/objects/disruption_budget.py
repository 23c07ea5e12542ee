"""PodDisruptionBudget of the Ray pods: a drain of nodes evicts them one after another.

The budget counts ready pods: the head, and every pod of a replica. Kubernetes accepts only a fixed number
here, because a RayCluster has no scale subresource with the desired number of pods. The number is the sum of
the pods of the models' minimum replicas. Therefore one pod of the smallest complete set may be unavailable,
and a service that has scaled up may lose more at once. The budget blocks no eviction forever: the head may go
too, as soon as every replica is ready. A pod that is never ready could be evicted while the others are ready.
Therefore `workers` gives the pods of a pipeline a probe that each of them passes.
"""

from typing import Any

from daybreak.api.common import names
from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.objects.metadata import metadata
from daybreak.ray.serve.replica_range import replica_range
from daybreak.scheduling.replica_size import pods_per_replica


def disruption_budget(svc: LLMService) -> dict[str, Any]:
    """Return the budget of the service's Ray pods."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(svc, names.disruption_budget(svc.name), "ray"),
        "spec": {
            "minAvailable": sum(
                replica_range(svc.workload, model).min * pods_per_replica(model) for model in svc.spec.models
            ),
            "selector": {
                "matchLabels": names.owner_labels(svc.name),
                # Pods of Jobs do not count.
                "matchExpressions": [{"key": names.RAY_NODE_TYPE_LABEL, "operator": "Exists"}],
            },
        },
    }
