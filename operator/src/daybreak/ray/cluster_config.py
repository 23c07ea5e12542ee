"""Configuration of a Ray cluster (`rayClusterConfig`), compared with KubeRay's own rules."""

from daybreak.api.common.canonical import digest
from daybreak.api.common.unstructured import Manifest, mappings

NUMBERS = ("replicas", "minReplicas", "maxReplicas")
"""Fields of a worker group that change in place."""


def cluster_digest(cluster: Manifest) -> str:
    """Return the digest of a configuration without the fields that change in place.

    If it changes, KubeRay needs a new cluster.
    """
    groups = [
        {name: value for name, value in group.items() if name not in NUMBERS}
        for group in mappings(cluster.get("workerGroupSpecs"))
    ]
    return digest({**cluster, "workerGroupSpecs": groups})
