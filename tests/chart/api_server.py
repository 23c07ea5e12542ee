"""Namespaces, CRDs and dry-runs on the API server of the chart tests."""

import contextlib
import json

from cluster import ClusterError, ControlPlane
from daybreak.api.schema.resource import GROUP
from daybreak.assembly import KINDS
from tests.chart.tools import Manifest, dump

CRDS = sorted(f"{kind.plural}.{GROUP}" for kind in KINDS)


def make_namespace(plane: ControlPlane, name: str, **labels: str) -> None:
    """A namespace, made when it is not there yet."""
    plane.apply(
        json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    )


def would_accept(plane: ControlPlane, manifests: list[Manifest]) -> str:
    """Server-side dry-run of all objects, unknown and doubled fields refused. Raises ClusterError."""
    return plane.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", stdin=dump(manifests)
    )


def remove_crds(plane: ControlPlane) -> None:
    """Delete our CRDs and wait until they are gone."""
    plane.kubectl("delete", "crd", *CRDS, "--ignore-not-found", "--wait=false")
    await_crds_gone(plane)


def await_crds_gone(plane: ControlPlane) -> None:
    """Wait until our CRDs, which are deleted, are gone.

    The API server may forget that it has to delete custom resources (crd_finalizer.go, Kubernetes 1.37): its
    first try fails and reports that in the CRD's condition Terminating. The second one conflicts with its own
    change, which its cache has not received yet, and leaves it to the next event, which is skipped
    since nothing but that condition differs. Then it tries again at its next resync, minutes later; any other
    change of the CRD has it try at once.
    """
    for number in range(10):
        with contextlib.suppress(ClusterError):
            plane.kubectl("wait", "--for=delete", *(f"crd/{crd}" for crd in CRDS), "--timeout=15s")
            return
        for crd in CRDS:
            with contextlib.suppress(ClusterError):  # gone in between
                plane.kubectl("annotate", "crd", crd, f"tests/again={number}", "--overwrite")
    raise AssertionError("not all of our CRDs are gone")
