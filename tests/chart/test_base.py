"""manifests/base is the chart with its default values, and kustomize takes it."""

import copy
import re
import shutil
from pathlib import Path

from scripts.manifests import kustomize_base
from tests.chart.tools import ROOT, Manifest, load, of_kind, one, program, run

BASE = ROOT / "manifests" / "base"
HELMS_LABELS = {"helm.sh/chart", "app.kubernetes.io/managed-by"}


def kustomize(folder: str) -> list[Manifest]:
    """Return the manifests that `kubectl kustomize` builds."""
    return load(run(program("kubectl"), "kustomize", folder))


def test_base_files_equal_generated_files() -> None:
    assert (BASE / "crds.yaml").read_text() == kustomize_base.crds_yaml(), "run `make generate`"
    assert (BASE / "operator.yaml").read_text() == kustomize_base.operator_yaml(), "run `make generate`"


def test_base_equals_chart_except_helm_labels(rendered: list[Manifest]) -> None:
    """Compared object by object, so that a fault of the generator shows too."""
    rendered = copy.deepcopy(rendered)
    for manifest in rendered:
        manifest["metadata"]["labels"] = {
            name: value for name, value in manifest["metadata"]["labels"].items() if name not in HELMS_LABELS
        }
    built = kustomize(str(BASE))
    assert [m["kind"] for m in of_kind(built, "Namespace")] == ["Namespace"]

    def identity(manifest: Manifest) -> tuple[str, str]:
        return manifest["kind"], manifest["metadata"]["name"]

    others = [m for m in built if m["kind"] != "Namespace"]
    assert sorted(others, key=identity) == sorted(rendered, key=identity)


def test_documented_kustomization_replaces_only_images(tmp_path: Path) -> None:
    """Images and the Ray image are replaced, everything else stays."""
    page = (ROOT / "docs" / "install.md").read_text()
    (block,) = re.findall(r"^```yaml\n(# kustomization\.yaml\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    # Laid out as on the page: this repository is checked out next to the kustomization's folder.
    shutil.copytree(BASE, tmp_path / "daybreak" / "manifests" / "base")
    overlay = tmp_path / "own"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text(block)
    built = kustomize(str(overlay))
    container = one(built, "Deployment")["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "REGISTRY/daybreak-operator:0.1.0"
    before = one(kustomize(str(BASE)), "Deployment")["spec"]["template"]["spec"]["containers"][0]
    changed = [variable for variable in container["env"] if variable not in before["env"]]
    assert changed == [
        {"name": "DAYBREAK_GATEWAY_IMAGE", "value": "REGISTRY/daybreak-gateway:0.1.0"},
        {"name": "DAYBREAK_RAY_IMAGE", "value": "REGISTRY/daybreak-ray:0.1.0"},
        {"name": "DAYBREAK_RAY_HEAD_IMAGE", "value": "REGISTRY/daybreak-ray-cpu:0.1.0"},
    ]
    assert len(container["env"]) == len(before["env"])
    policy = of_kind(built, "ValidatingAdmissionPolicy")[0]["spec"]
    assert policy["variables"][0] == {
        "name": "gatewayImages",
        "expression": '["REGISTRY/daybreak-gateway:0.1.0"]',
    }
