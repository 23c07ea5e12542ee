"""kubeconform over rendered and shipped files, with the schemas that the real API server publishes.

kubeconform's own collection of schemas lies on a web site and has neither this Kubernetes version nor
KubeRay's kinds. The API server has both, and also the Prometheus operator's and Argo CD's kinds, as their
CRDs are installed: its OpenAPI document is cut into one JSON schema per kind, and made strict (an unknown
field is an error). This is what users can run without a cluster; test_apiserver.py goes further.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster import ControlPlane
from tests.chart.tools import CHART, EVERYTHING, ROOT, Helm, ToolFailed, dump, load, program, run

pytestmark = pytest.mark.xdist_group("chart-plane")

Schema = dict[str, Any]
_PREFIX = "#/definitions/"


def strict(schema: Schema) -> Schema:
    """Return a published schema as kubeconform needs it: without additional fields."""
    made = dict(schema)
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        made["type"] = ["string", "integer"]
    if "properties" in schema:
        made["properties"] = {name: strict(part) for name, part in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            made.setdefault("additionalProperties", False)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            made[key] = strict(schema[key])
    return made


def references(part: Any) -> Iterator[str]:
    """Yield the names of the definitions that a schema refers to."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "$ref" and isinstance(value, str):
                yield value.removeprefix(_PREFIX)
            else:
                yield from references(value)
    elif isinstance(part, list):
        for item in part:
            yield from references(item)


def with_definitions(name: str, published: dict[str, Schema]) -> Schema:
    """Return a definition and all that it needs, in one schema."""
    needed: dict[str, Schema] = {}
    open_names = [name]
    while open_names:
        current = open_names.pop()
        if current not in needed:
            needed[current] = published[current]
            open_names.extend(references(published[current]))
    return {**published[name], "definitions": needed}


@pytest.fixture(scope="module")
def schemas(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with a schema for each kind."""
    plane.install_crds([CHART / "files" / "crds"])
    folder = tmp_path_factory.mktemp("schemas")
    definitions = json.loads(plane.kubectl("get", "--raw", "/openapi/v2"))["definitions"]
    published = {name: strict(schema) for name, schema in definitions.items()}
    # Published as strings, and read from numbers as well.
    published["io.k8s.apimachinery.pkg.api.resource.Quantity"] = {"type": ["string", "number"]}
    for name, schema in published.items():
        for kind in schema.get("x-kubernetes-group-version-kind", []):
            # kubeconform's own naming, with the first word of the group.
            suffix = "-".join(part for part in (kind["group"].partition(".")[0], kind["version"]) if part)
            file = f"{kind['kind']}-{suffix}.json".lower()
            (folder / file).write_text(json.dumps(with_definitions(name, published)))
    return folder


def kubeconform(schemas: Path, text: str) -> dict[str, Any]:
    """Check YAML documents. Raises ToolFailed with the errors, an unknown kind included."""
    location = f"{schemas}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    options = ("-strict", "-summary", "-output=json", f"-schema-location={location}")
    message = run(program("kubeconform"), *options, "-", stdin=text)
    summary: dict[str, Any] = json.loads(message)["summary"]
    return summary


@pytest.mark.parametrize("options", [(), ("--values", str(EVERYTHING))], ids=["default", "everything"])
def test_kubeconform_accepts_chart(schemas: Path, helm: Helm, options: tuple[str, ...]) -> None:
    manifests = helm.template(*options)
    assert kubeconform(schemas, dump(manifests)) == {
        "valid": len(manifests),
        "invalid": 0,
        "errors": 0,
        "skipped": 0,
    }


@pytest.mark.parametrize("folder", ["base", "argocd", "samples"])
def test_kubeconform_accepts_shipped_manifests(schemas: Path, folder: str) -> None:
    files = [
        file
        for file in sorted((ROOT / "manifests" / folder).rglob("*.yaml"))
        if file.name not in {"kustomization.yaml", "health_test.yaml"}
    ]
    documents = [d for file in files for d in load(file.read_text())]
    assert documents
    summary = kubeconform(schemas, dump(documents))
    assert summary["valid"] == len(documents)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"prots": []}}, "prots"),
        (
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"ports": "no"}},
            "ports",
        ),
        ({"apiVersion": "daybreak.dev/v1alpha1", "kind": "LLMService", "spec": {"model": []}}, "model"),
        ({"apiVersion": "daybreak.dev/v1", "kind": "LLMService", "metadata": {"name": "x"}}, "schema"),
    ],
)
def test_kubeconform_rejects_invalid_manifest(schemas: Path, wrong: dict[str, Any], message: str) -> None:
    """The schemas are not so loose that everything passes."""
    with pytest.raises(ToolFailed, match=message):
        kubeconform(schemas, json.dumps(wrong))
