"""The published samples: each is valid as it is, and its first lines name its requirements and purpose."""

import ast
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from daybreak.api.common.source import WEIGHTS, Scheme
from daybreak.api.llmbatch import validation as batch_validation
from daybreak.api.llmbatch.definition import KIND as BATCH
from daybreak.api.llmbatch.definition import LLMBatch
from daybreak.api.llmbenchmark import validation as benchmark_validation
from daybreak.api.llmbenchmark.definition import KIND as BENCHMARK
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.llmroute.definition import LLMRoute
from daybreak.api.llmroute.resource import KIND as ROUTE
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.llmservice.validation import notices, problems
from daybreak.api.modelserver import validation as server_validation
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.resource import KIND as SERVER
from daybreak.api.ray.model import Placement
from daybreak.api.serveapplication import validation as application_validation
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.api.serveapplication.resource import KIND as APPLICATION
from scripts.kinds import LLM_BATCH, LLM_BENCHMARK, LLM_ROUTE, LLM_SERVICE, MODEL_SERVER, SERVE_APPLICATION
from scripts.schemas.json_schema import json_schema

SAMPLES = Path(__file__).parents[3] / "manifests" / "samples"
EVERY = sorted(path for path in SAMPLES.glob("*.yaml") if path.name != "kustomization.yaml")
BATCHES = [path for path in EVERY if f"kind: {BATCH}\n" in path.read_text()]
BENCHMARKS = [path for path in EVERY if f"kind: {BENCHMARK}\n" in path.read_text()]
SERVERS = [path for path in EVERY if f"kind: {SERVER}\n" in path.read_text()]
ROUTES = [path for path in EVERY if f"kind: {ROUTE}\n" in path.read_text()]
APPLICATIONS = [path for path in EVERY if f"kind: {APPLICATION}\n" in path.read_text()]
OTHERS = (*BATCHES, *BENCHMARKS, *SERVERS, *ROUTES, *APPLICATIONS)
FILES = [path for path in EVERY if path not in OTHERS]


def read(path: Path) -> dict[str, Any]:
    # The objects that a sample requires, such as a ConfigMap, precede it.
    whole: dict[str, Any] = [*yaml.safe_load_all(path.read_text())][-1]
    return whole


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_service_sample_is_valid(path: Path) -> None:
    whole = read(path)
    service = LLMService.from_manifest(whole)
    assert problems(service) == ()
    assert notices(service, gateway=True) == ()
    jsonschema.validate(whole, json_schema(LLM_SERVICE))


@pytest.mark.parametrize("path", BATCHES, ids=lambda path: path.stem)
def test_batch_sample_is_valid(path: Path) -> None:
    whole = read(path)
    assert batch_validation.problems(LLMBatch.from_manifest(whole)) == ()
    jsonschema.validate(whole, json_schema(LLM_BATCH))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_benchmark_sample_is_valid(path: Path) -> None:
    whole = read(path)
    assert benchmark_validation.problems(LLMBenchmark.from_manifest(whole)) == ()
    jsonschema.validate(whole, json_schema(LLM_BENCHMARK))


@pytest.mark.parametrize("path", SERVERS, ids=lambda path: path.stem)
def test_model_server_sample_is_valid(path: Path) -> None:
    whole = read(path)
    assert server_validation.problems(ModelServer.from_manifest(whole)) == ()
    jsonschema.validate(whole, json_schema(MODEL_SERVER))


@pytest.mark.parametrize("path", APPLICATIONS, ids=lambda path: path.stem)
def test_application_sample_is_valid(path: Path) -> None:
    whole = read(path)
    assert application_validation.problems(ServeApplication.from_manifest(whole)) == ()
    jsonschema.validate(whole, json_schema(SERVE_APPLICATION))


@pytest.mark.parametrize("path", APPLICATIONS, ids=lambda path: path.stem)
def test_application_sample_code_defines_names_of_its_spec(path: Path) -> None:
    [code, whole] = yaml.safe_load_all(path.read_text())
    spec = whole["spec"]
    module, _, name = spec["importPath"].partition(":")
    assert spec["code"]["configMap"] == code["metadata"]["name"]
    tree = ast.parse(code["data"][f"{module}.py"])
    assigned = [each.targets[0] for each in tree.body if isinstance(each, ast.Assign)]
    defined = {each.name for each in tree.body if isinstance(each, ast.ClassDef | ast.FunctionDef)}
    assert name in defined | {each.id for each in assigned if isinstance(each, ast.Name)}
    assert {each["name"] for each in spec["deployments"]} <= defined


@pytest.mark.parametrize("path", ROUTES, ids=lambda path: path.stem)
def test_route_sample_refers_to_models_of_other_samples(path: Path) -> None:
    whole = read(path)
    route = LLMRoute.from_manifest(whole)
    jsonschema.validate(whole, json_schema(LLM_ROUTE))
    services = [LLMService.from_manifest(read(each)) for each in FILES]
    models = {(service.name, model.name) for service in services for model in service.spec.models}
    assert {(backend.service, backend.model) for backend in route.spec.every()} <= models


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_sample_header_states_purpose_and_requirements(path: Path) -> None:
    head = path.read_text().split("apiVersion", 1)[0]
    assert "# Shows: " in head
    assert "# Needs: " in head


def test_kustomize_has_every_sample() -> None:
    kustomization = read(SAMPLES / "kustomization.yaml")
    assert sorted(kustomization["resources"]) == [path.name for path in EVERY]
    assert len({read(path)["metadata"]["name"] for path in EVERY}) == len(EVERY)


def test_samples_cover_expected_sources_accelerators_and_parallelism() -> None:
    models = [
        model for path in FILES for model in LLMService.from_manifest(read(path)).spec.models
    ]  # every model of every sample
    # The sample of a bucket has S3's scheme.
    assert {model.source.split("://")[0] for model in models} == set(WEIGHTS) - {Scheme.GCS}
    assert {model.accelerator.kind.value for model in models} == {"gpu", "cpu"}
    assert [
        model
        for model in models
        if model.parallelism.tensor == 4 and model.placement is Placement.STRICT_PACK
    ]
    assert [model for model in models if model.parallelism.pipeline > 1]
    assert any(len(read(path)["spec"]["models"]) == 2 for path in FILES)
