"""KubeRay's CustomResourceDefinitions, as much of them as Daybreak uses.

What an API server does for them when it starts, and for each that comes, costs it ten seconds of CPU, most of
it for versions and kinds that nobody names here. The schemas of what is left are KubeRay's own, whole.
"""

import json
import tempfile
from pathlib import Path

import yaml

import cluster

KINDS = ("rayclusters", "rayjobs", "rayservices")
VERSION = "v1"


def kuberay_crds() -> Path:
    """The folder with them; made when it is not there."""
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
