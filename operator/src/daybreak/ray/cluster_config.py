"""The configuration of a Ray cluster (`rayClusterConfig`), compared as KubeRay compares it."""

from daybreak.api.common.canonical import digest
from daybreak.api.common.unstructured import Manifest, mappings

NUMBERS = ("replicas", "minReplicas", "maxReplicas")
"""Fields of a worker group that change in place."""


def cluster_digest(cluster: Manifest) -> str:
    """Digest of a configuration without what changes in place, so that KubeRay needs a new cluster for what
    changes it."""
    groups = [
        {name: value for name, value in group.items() if name not in NUMBERS}
        for group in mappings(cluster.get("workerGroupSpecs"))
    ]
    return digest({**cluster, "workerGroupSpecs": groups})
