"""The form of an LLMService: defaults, rules, and messages with a fix."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from daybreak.api.common.source import FORMS, WEIGHTS
from daybreak.api.gates.rollout import RolloutStrategy
from daybreak.api.llmservice.definition import NAME_RULES, LLMService
from daybreak.api.llmservice.spec import LLMServiceSpec
from daybreak.api.ray.model import AcceleratorKind
from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.custom_object import InvalidSpec
from daybreak.api.schema.kubernetes_types import EnvVar
from tests.accepted_specs import TAKEN
from tests.broken_specs import BY_RULE
from tests.out_of_bounds_specs import BY_SCHEMA
from tests.specs import Broken, manifest, with_model

OTHERS = (
    "daybreak.api.llmbatch",
    "daybreak.api.llmbenchmark",
    "daybreak.api.llmroute",
    "daybreak.api.modelserver",
    "daybreak.api.serveapplication",
)
"""Packages of other kinds."""


def read(broken: Broken) -> LLMService:
    return LLMService.from_manifest(broken.manifest)


@pytest.mark.parametrize("broken", BY_RULE, ids=lambda broken: broken.id)
def test_broken_rule_is_reported_with_rule_and_path(broken: Broken) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        read(broken)
    assert broken.rule in str(refusal.value)
    assert broken.path in str(refusal.value)


@pytest.mark.parametrize("broken", BY_SCHEMA, ids=lambda broken: broken.id)
def test_out_of_bounds_value_is_reported_with_its_path(broken: Broken) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        read(broken)
    assert broken.path in str(refusal.value)
    assert "pydantic" not in str(refusal.value)


@pytest.mark.parametrize("taken", TAKEN.values(), ids=TAKEN.keys())
def test_unusual_manifest_is_accepted_and_unchanged_after_dump(taken: dict[str, Any]) -> None:
    service = LLMService.from_manifest(taken)
    written = service.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert LLMServiceSpec.model_validate(written) == service.spec


def test_every_rule_has_a_manifest_that_breaks_it() -> None:
    def models(model: type[ApiModel]) -> Iterator[type[ApiModel]]:
        for child in model.__subclasses__():
            # The file test_spec.py of each other kind tests its models.
            if not child.__module__.startswith(OTHERS):
                yield child
                yield from models(child)

    rules = {rule.message for model in models(ApiModel) for rule in model.rules}
    rules |= {rule.message for rule in NAME_RULES} | {FORMS[scheme].desired for scheme in WEIGHTS}
    assert rules <= {broken.rule for broken in BY_RULE}


def test_minimal_manifest_has_documented_defaults() -> None:
    spec = LLMService.from_manifest(manifest()).spec
    model = spec.models[0]
    assert model.accelerator.kind is AcceleratorKind.GPU
    assert model.accelerator.resource == "nvidia.com/gpu"
    assert (model.parallelism.tensor, model.parallelism.pipeline) == (1, 1)
    assert (model.replicas.min, model.replicas.max, model.replicas.initial) == (1, None, None)
    assert model.engine.args == {}
    assert model.trust_remote_code is False
    assert spec.replicas is None
    assert spec.sleep is None
    assert spec.rollout.strategy is RolloutStrategy.AUTO
    assert spec.runtime.image_pull_policy == "IfNotPresent"


def test_a_spec_cannot_be_changed() -> None:
    spec = LLMService.from_manifest(manifest()).spec
    with pytest.raises(ValidationError, match="frozen"):
        spec.replicas = 3  # type: ignore[misc]  # mypy refuses it too


def test_all_invalid_fields_are_reported_together() -> None:
    wrong = with_model(parallelism={"tensor": 0}, replicas={"min": -1})
    wrong["spec"]["colour"] = "red"
    with pytest.raises(InvalidSpec) as refusal:
        LLMService.from_manifest(wrong)
    for path in ("spec.models[0].parallelism.tensor", "spec.models[0].replicas.min", "spec.colour"):
        assert f"{path}: " in str(refusal.value)


def test_environment_value_is_not_in_error_message() -> None:
    broken = manifest(runtime={"env": [{"name": "not a name", "value": "hf_secret"}]})
    with pytest.raises(InvalidSpec) as refusal:
        LLMService.from_manifest(broken)
    assert "hf_secret" not in str(refusal.value)


def test_identity_comes_from_the_metadata() -> None:
    whole = manifest()
    whole["metadata"] |= {"namespace": "models", "uid": "u-1", "generation": 7}
    service = LLMService.from_manifest(whole)
    assert (service.name, service.namespace, service.uid, service.generation) == (
        "sample",
        "models",
        "u-1",
        7,
    )


def test_python_field_names_build_equal_object() -> None:
    assert EnvVar(name="A", value_from=None) == EnvVar.model_validate({"name": "A"})
