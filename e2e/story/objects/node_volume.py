"""PVC backed by a folder of this machine, which is the node."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from story.objects.kubernetes import NAMESPACE, Kubernetes

ACCESS_MODES = ["ReadWriteMany"]
SIZE = {"storage": "1Gi"}


@contextmanager
def node_volume(kubernetes: Kubernetes, name: str, folder: Path) -> Iterator[None]:
    """Create a PersistentVolume and a PVC of this name for the duration of the block; the folder stays."""
    folder.chmod(0o777)  # a folder of the node does not support fsGroup
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": SIZE,
            "accessModes": ACCESS_MODES,
            "claimRef": {"name": name, "namespace": NAMESPACE},
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": str(folder), "type": "Directory"},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ACCESS_MODES,
            "resources": {"requests": SIZE},
            "storageClassName": "",
            "volumeName": name,
        },
    }
    kubernetes.apply(volume)
    kubernetes.apply(claim)
    try:
        yield
    finally:
        kubernetes.delete("pvc", name)
        kubernetes.delete("pv", name)
