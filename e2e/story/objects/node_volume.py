"""A claim behind which there is a folder of this machine, which is the node."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from story.objects.kubernetes import NAMESPACE, Kubernetes

ACCESS_MODES = ["ReadWriteMany"]
SIZE = {"storage": "1Gi"}


@contextmanager
def node_volume(kubernetes: Kubernetes, name: str, folder: Path) -> Iterator[None]:
    """A PersistentVolume and a claim of this name, as long as the context is open; the folder stays."""
    folder.chmod(0o777)  # a folder of the node takes no fsGroup
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
