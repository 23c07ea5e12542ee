"""The PodDisruptionBudget of the Ray pods: a drain of nodes takes them one after the other.

It counts ready pods: the head, and every pod of a replica. Kubernetes takes only a fixed number here, since
a RayCluster has no scale subresource from which it could read how many there should be. With as many as the
pods of the models' smallest replicas together, one pod of the smallest complete set may be away, and a
service that has grown may lose more at once. Nothing is held up for good: the head, too, may go, as soon as
every replica is ready. A pod that is never ready would be free to take while the others are ready: so
`workers` gives the pods of a pipeline a probe that each of them passes.
"""

from typing import Any

from daybreak.api.common import names
from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.objects.metadata import metadata
from daybreak.ray.serve.replica_range import replica_range
from daybreak.scheduling.replica_size import pods_per_replica


def disruption_budget(svc: LLMService) -> dict[str, Any]:
    """The budget of the service's Ray pods."""
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
                # Not the pods of Jobs.
                "matchExpressions": [{"key": names.RAY_NODE_TYPE_LABEL, "operator": "Exists"}],
            },
        },
    }
