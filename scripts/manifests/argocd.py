"""Argo CD's health checks as keys of argocd-cm, from the Lua files."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CUSTOMIZATIONS = ROOT / "manifests" / "argocd" / "resource_customizations"

HEAD = """\
# Made by `make generate` from resource_customizations/; do not edit.
# `kubectl apply --server-side -f manifests/argocd/argocd-cm.yaml` leaves all other keys as they are.
apiVersion: v1
kind: ConfigMap
metadata:
  name: argocd-cm
  namespace: argocd
  labels:
    app.kubernetes.io/name: argocd-cm
    app.kubernetes.io/part-of: argocd
data:
"""


def scripts() -> dict[tuple[str, str], Path]:
    """Return the health check by group and kind: the kind's own, or the common one of its group."""
    found = {}
    for cases in sorted(CUSTOMIZATIONS.glob("*/*/health_test.yaml")):
        own, common = cases.parent / "health.lua", cases.parent.parent / "health.lua"
        found[cases.parent.parent.name, cases.parent.name] = own if own.exists() else common
    return found


def argocd_cm_yaml() -> str:
    """Return Daybreak's part of argocd-cm."""
    text = HEAD
    for (group, kind), script in scripts().items():
        text += f"  resource.customizations.health.{group}_{kind}: |\n"
        text += "".join(f"    {line}".rstrip() + "\n" for line in script.read_text().splitlines())
    return text
