"""Argo CD: its Applications, and the health checks.

These run in Lua 5.1, the language of Argo CD's interpreter, with no more libraries than Argo CD gives.
"""

import importlib
import re
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
import yaml

from daybreak import versions
from daybreak.api.common.conditions import Reason
from daybreak.api.llmbatch.definition import LLMBatch
from daybreak.api.llmbatch.status import BatchReason, LLMBatchStatus
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.llmbenchmark.status import BenchmarkReason, LLMBenchmarkStatus
from daybreak.api.llmroute.definition import LLMRoute
from daybreak.api.llmroute.status import LLMRouteStatus, RouteReason
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.resource import KIND
from daybreak.api.llmservice.status import LLMServiceStatus
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.status import ModelServerStatus
from daybreak.api.schema import resource
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.api.serveapplication.status import ServeApplicationStatus
from daybreak.assembly import KINDS
from scripts.manifests import argocd
from tests.chart.rendered import environment, operator_pod
from tests.chart.tools import CHART, ROOT, Helm, Manifest

ARGOCD = ROOT / "manifests" / "argocd"
STATUSES = {"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"}
TAKEN_AWAY = ("string", "math", "io", "os", "debug", "coroutine", "python")
"""Argo CD opens the base, package and table libraries (and an os with the time only)."""


READ: dict[str, tuple[Any, Any, type[StrEnum]]] = {
    "LLMService": (LLMService, LLMServiceStatus, Reason),
    "ModelServer": (ModelServer, ModelServerStatus, Reason),
    "ServeApplication": (ServeApplication, ServeApplicationStatus, Reason),
    "LLMBatch": (LLMBatch, LLMBatchStatus, BatchReason),
    "LLMBenchmark": (LLMBenchmark, LLMBenchmarkStatus, BenchmarkReason),
    "LLMRoute": (LLMRoute, LLMRouteStatus, RouteReason),
}
"""How each kind and its status are read, and its reasons."""
LUA: Any = importlib.import_module("lupa.lua51")
"""Imported by name: its type hints know less than it does."""


def lua_value(lua: Any, value: Any) -> Any:
    """Return a YAML value as Lua has it."""
    if isinstance(value, dict):
        return lua.table_from({key: lua_value(lua, item) for key, item in value.items()})
    if isinstance(value, list):
        return lua.table_from([lua_value(lua, item) for item in value])
    return value


def health(script: str, manifest: Any) -> dict[str, Any]:
    """Run a health check as Argo CD does and return what it says."""
    lua = LUA.LuaRuntime(register_eval=False, register_builtins=False)
    lua.execute("getmetatable('').__index = nil")
    for library in TAKEN_AWAY:
        lua.globals()[library] = None
    lua.globals()["obj"] = lua_value(lua, manifest)
    return dict(lua.execute(script))


def cases() -> list[Any]:
    """Return every case of every health_test.yaml."""
    return [
        pytest.param(
            argocd.scripts()[file.parent.parent.name, file.parent.name],
            file.parent / case["inputPath"],
            case["healthStatus"],
            id=f"{file.parent.name}-{Path(case['inputPath']).stem}",
        )
        for file in sorted(ARGOCD.glob("resource_customizations/*/*/health_test.yaml"))
        for case in yaml.safe_load(file.read_text())["tests"]
    ]


@pytest.mark.parametrize(("script", "manifest", "expected"), cases())
def test_health_check_returns_expected_status(script: Path, manifest: Path, expected: dict[str, str]) -> None:
    assert expected["status"] in STATUSES
    assert health(script.read_text(), yaml.safe_load(manifest.read_text())) == expected


def test_every_health_check_and_every_file_has_a_case() -> None:
    tested = {(case.values[0], case.values[1]) for case in cases()}
    ours = {(resource.GROUP, kind.kind) for kind in KINDS}
    assert set(argocd.scripts()) == {*ours, ("ray.io", "RayService")}
    assert {script for script, _ in tested} == set(ARGOCD.glob("resource_customizations/**/health.lua"))
    assert {file for _, file in tested} == set(ARGOCD.glob("resource_customizations/*/*/testdata/*.yaml"))


def test_statuses_of_health_cases_match_api_schema() -> None:
    """Statuses and reasons of our kinds are those of the API, so that they do not drift from it."""
    for kind, (read, written, own) in READ.items():
        reasons = {reason.value for reason in own}
        files = list(ARGOCD.glob(f"resource_customizations/{resource.GROUP}/{kind}/testdata/*.yaml"))
        assert files
        for file in files:
            manifest = yaml.safe_load(file.read_text())
            read.from_manifest(manifest)
            status = written.model_validate(manifest.get("status", {}))
            assert {condition.reason for condition in status.conditions} <= reasons, file.name


def test_each_return_of_health_check_is_reached_by_a_case() -> None:
    """Taking a `return` away changes what some case says: no case is there for show, no branch untested."""
    for script in sorted(ARGOCD.glob("resource_customizations/**/health.lua")):
        text = script.read_text()
        own = [case.values for case in cases() if case.values[0] == script]
        returns = [n for n, line in enumerate(text.splitlines()) if line.strip().startswith("return health(")]
        assert len(returns) >= 7
        for number in returns:
            lines = text.splitlines()
            lines[number] = "return {status = 'Unknown'}"
            broken = "\n".join(lines)
            assert any(
                health(broken, yaml.safe_load(file.read_text())) != expected for _, file, expected in own
            ), f"{script}: no case reaches line {number + 1}"


def test_config_map_equals_generated_health_checks() -> None:
    text = (ARGOCD / "argocd-cm.yaml").read_text()
    assert text == argocd.argocd_cm_yaml(), "run `make generate`"
    data = yaml.safe_load(text)["data"]
    for (group, kind), script in argocd.scripts().items():
        assert data.pop(f"resource.customizations.health.{group}_{kind}") == script.read_text()
    assert not data


def applications() -> list[dict[str, Any]]:
    """Return every Application of manifests/argocd."""
    documents = [yaml.safe_load(file.read_text()) for file in sorted(ARGOCD.glob("*.yaml"))]
    return [document for document in documents if document["kind"] == "Application"]


def sources() -> list[dict[str, Any]]:
    """Return every source of every Application."""
    return [
        source
        for application in applications()
        for source in application["spec"].get("sources") or [application["spec"]["source"]]
    ]


def installed(source: dict[str, Any], helm: Helm, folder: Path) -> list[Manifest]:
    """Return the objects that a source renders of Daybreak's chart; none for another chart."""
    if source.get("path") != CHART.relative_to(ROOT).as_posix():
        return []
    values = folder / "values.yaml"
    values.write_text(yaml.safe_dump(source["helm"]["valuesObject"]))
    return helm.template("--values", values)


def test_each_application_uses_server_side_apply_and_diff() -> None:
    assert len(applications()) == 4
    for application in applications():
        assert "ServerSideApply=true" in application["spec"]["syncPolicy"]["syncOptions"]
        options = application["metadata"]["annotations"]["argocd.argoproj.io/compare-options"]
        assert options == "ServerSideDiff=true"


def test_sources_exist_and_their_values_render(helm: Helm, tmp_path: Path) -> None:
    charts = 0
    for source in sources():
        if "chart" in source:
            assert source["chart"] == "kuberay-operator"
            assert source["targetRevision"] == versions.KUBERAY
        elif source["path"] != "models":  # the reader's own repository
            assert source["targetRevision"] == f"v{versions.DAYBREAK}"
            assert (ROOT / source["path"]).is_dir()
        if manifests := installed(source, helm, tmp_path):
            charts += 1
            kinds = {manifest["kind"] for manifest in manifests}
            # Argo CD excludes Leases, and warns of one for ever.
            assert "Lease" not in kinds
            assert "CustomResourceDefinition" in kinds
    assert charts == 2


def test_every_image_comes_from_a_registry(helm: Helm, tmp_path: Path) -> None:
    """Nodes have none of them: without a registry's host they would be looked for at Docker Hub."""
    images = [
        image
        for source in sources()
        if (manifests := installed(source, helm, tmp_path))
        for image in (
            operator_pod(manifests)["containers"][0]["image"],
            *(value for name, value in environment(manifests).items() if name.endswith("_IMAGE")),
        )
    ]
    # Of the operator, the gateways, Ray on GPUs and on CPUs, and heads before GPUs.
    assert len(images) == 2 * 5
    assert [image for image in images if not re.match(r"[^/]+[.:][^/]*/", image)] == []


def test_models_are_synced_after_crd_and_operator() -> None:
    """Argo CD dry-runs everything first, so the LLMService must say that its kind may be missing yet."""
    documents = list(yaml.safe_load_all((ARGOCD / "models" / "llama.yaml").read_text()))
    (model,) = (document for document in documents if document["kind"] == KIND)
    annotations = model["metadata"]["annotations"]
    assert int(annotations["argocd.argoproj.io/sync-wave"]) > 0
    assert annotations["argocd.argoproj.io/sync-options"] == "SkipDryRunOnMissingResource=true"


def test_app_of_apps_syncs_kuberay_before_daybreak_before_models() -> None:
    waves = {
        application["metadata"]["name"]: int(
            application["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"]
        )
        for application in applications()
        if application["metadata"]["name"] != "daybreak-and-models"
    }
    assert waves["kuberay"] < waves["daybreak"] < waves["models"]


def test_only_replicas_are_ignored_in_differences() -> None:
    ignored = [
        entry for application in applications() for entry in application["spec"].get("ignoreDifferences", [])
    ]
    assert ignored == [{"group": resource.GROUP, "kind": KIND, "jsonPointers": ["/spec/replicas"]}]
