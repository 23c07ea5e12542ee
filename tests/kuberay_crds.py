"""KubeRay's CustomResourceDefinitions, as much of them as Daybreak uses.

An API server spends ten seconds of CPU on them when it starts, and for each added one, most of it for
versions and kinds that no test uses. The schemas of the remaining ones are KubeRay's own, complete.
"""

import json
import tempfile
from pathlib import Path

import yaml

import cluster

KINDS = ("rayclusters", "rayjobs", "rayservices")
VERSION = "v1"


def kuberay_crds() -> Path:
    """Return the folder with the CRDs, which is created if missing."""
    full = cluster.kuberay_crds()
    folder = full.with_name(f"{full.name}-{VERSION}")
    if not folder.exists():
        # Several workers may begin at once.
        with tempfile.TemporaryDirectory(dir=full.parent) as made:
            whole = Path(made) / "whole"
            whole.mkdir()
            for kind in KINDS:
                definition = yaml.load((full / f"ray.io_{kind}.yaml").read_text(), yaml.CSafeLoader)
                (whole / f"{kind}.json").write_text(json.dumps(_in_use(definition)))
            try:
                whole.rename(folder)
            except OSError:
                assert folder.exists()
    return folder


def _in_use(definition: dict[str, dict[str, list[dict[str, str]]]]) -> object:
    [version] = [each for each in definition["spec"]["versions"] if each["name"] == VERSION]
    return definition | {"spec": definition["spec"] | {"versions": [version]}}
