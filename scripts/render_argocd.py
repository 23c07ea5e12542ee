"""Argo CD's health checks in the form that it reads: keys of argocd-cm, made from the Lua files."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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


def argocd_cm_yaml() -> str:
    """The part of argocd-cm that belongs to Daybreak."""
    text = HEAD
    for script in sorted(CUSTOMIZATIONS.glob("*/*/health.lua")):
        kind, group = script.parent.name, script.parent.parent.name
        text += f"  resource.customizations.health.{group}_{kind}: |\n"
        text += "".join(f"    {line}".rstrip() + "\n" for line in script.read_text().splitlines())
    return text
