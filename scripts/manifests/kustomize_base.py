"""Kustomize base (manifests/base), from the chart with its default values.

The base lacks only the two labels that mark Helm's installations. `make generate` writes it; a test in
tests/chart compares it with the chart.
"""

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "daybreak"
RELEASE = "daybreak"
NAMESPACE = "daybreak-system"
BUILT_HELM = ROOT / ".daybreak" / "bin" / "helm"

HEADER = "# Made by `make generate` from charts/daybreak with its default values; do not edit.\n"
_HELMS_OWN = re.compile(r"^\s*(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n", re.MULTILINE)


def helm() -> str:
    """Return the path of helm: the one built here, or the one on PATH.

    Raises SystemExit if there is none.
    """
    found = str(BUILT_HELM) if BUILT_HELM.exists() else shutil.which("helm")
    if found is None:
        raise SystemExit("helm is missing: install Helm 4, or run `make test` once, which builds it")
    return found


@lru_cache
def documents(*options: str) -> tuple[str, ...]:
    """Return the output of `helm template`, one text per object, without comments on the sources."""
    command = [helm(), "template", RELEASE, str(CHART), "--namespace", NAMESPACE, *options]
    # The user's kubeconfig must not change the result.
    environment = {**os.environ, "KUBECONFIG": os.devnull}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - helm
    if done.returncode != 0:
        raise SystemExit(f"helm template failed: {done.stderr.strip()}")
    parts = re.split(r"^---\n", done.stdout, flags=re.MULTILINE)
    plain = (re.sub(r"^# Source: .*\n", "", part, flags=re.MULTILINE).strip() for part in parts)
    return tuple(f"{part}\n" for part in plain if part)


def _is_crd(document: str) -> bool:
    return re.search(r"^kind: CustomResourceDefinition$", document, re.MULTILINE) is not None


def _file(chosen: list[str]) -> str:
    return HEADER + "---\n".join(_HELMS_OWN.sub("", document) for document in chosen)


def crds_yaml() -> str:
    """Return the CustomResourceDefinitions."""
    return _file([document for document in documents() if _is_crd(document)])


def operator_yaml() -> str:
    """Return the operator and its permissions."""
    return _file([document for document in documents() if not _is_crd(document)])
