"""Engine arguments, checked against the list of the pinned vLLM version."""

import json
from importlib import resources
from typing import Any, get_args

import pytest

from daybreak import versions
from daybreak.api.common import engine_args
from daybreak.api.llmservice.spec import LLMServiceSpec
from daybreak.api.ray.model import Model

KNOWN = engine_args.catalogue()


def read_message(name: str, value: Any = 1, *, other_vllm: bool = False) -> str:
    """Return the problem of one argument, or an empty string."""
    found = dict(engine_args.problems({name: value}, other_vllm=other_vllm))
    return found.get(name, "")


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("max_model_lenn", "max_model_len"),
        ("max_model_length", "max_model_len"),
        ("max-model-len", "max_model_len"),
        ("--max-model-len", "max_model_len"),
        ("maxModelLen", "max_model_len"),
        ("gpu_mem_utilization", "gpu_memory_utilization"),
        ("max_num_seq", "max_num_seqs"),
        ("enable_prefix_cache", "enable_prefix_caching"),
    ],
)
def test_unknown_argument_is_rejected_with_nearest_name(wrong: str, near: str) -> None:
    assert read_message(wrong) == f"vLLM {versions.VLLM} has no such argument; did you mean {near}?"


def test_unknown_argument_without_similar_name_gets_no_suggestion() -> None:
    assert read_message("zzzzzz") == f"vLLM {versions.VLLM} has no such argument, and none of a similar name"


def test_argument_similar_to_owned_name_is_reported_with_model_field() -> None:
    assert read_message("tensor_parallel").endswith("use the model's field parallelism.tensor")


@pytest.mark.parametrize("name", sorted(KNOWN.owned))
def test_argument_with_model_field_is_rejected_with_that_field(name: str) -> None:
    field = KNOWN.owned[name].removeprefix("spec.models[].")
    assert read_message(name) == f"Daybreak sets this argument; use the model's field {field}"
    part: Any = Model
    for step in field.split("."):
        found = {f.alias: f.annotation for f in part.model_fields.values()}[step]
        # An optional part has the annotation `Part | None`.
        part = next((one for one in get_args(found) if one is not type(None)), found)


@pytest.mark.parametrize("name", sorted(KNOWN.refused))
def test_unsupported_argument_is_rejected_with_reason(name: str) -> None:
    assert KNOWN.refused[name] in read_message(name)
    assert KNOWN.refused[name] in read_message(name, other_vllm=True)


def test_rejection_reasons_name_only_existing_fields() -> None:
    top = {field.alias for field in LLMServiceSpec.model_fields.values()}
    own = {field.alias for field in Model.model_fields.values()}
    assert "models" in top
    for reason in KNOWN.refused.values():
        for word in reason.replace(",", " ").replace(";", " ").split():
            if word.startswith("spec.models[]."):
                assert word.removeprefix("spec.models[].") in own


@pytest.mark.parametrize("name", sorted(KNOWN.arguments))
def test_default_and_choices_of_vllm_are_accepted(name: str) -> None:
    text = resources.files("daybreak.api.common").joinpath("engine_args.json").read_text(encoding="utf-8")
    entry = json.loads(text)["arguments"][name]
    assert read_message(name, entry.get("default")) == ""
    for choice in entry.get("choices", ()):
        assert read_message(name, choice) == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_model_len", 8192),
        ("max_model_len", "8192"),
        ("max_model_len", 8192.0),
        ("max_model_len", None),
        ("gpu_memory_utilization", 1),
        ("gpu_memory_utilization", "0.9"),
        ("enforce_eager", True),
        ("enforce_eager", 0),
        ("dtype", "bfloat16"),
        ("moe_backend", "flashinfer-cutlass"),
        ("compilation_config", {"level": 3}),
        ("hf_overrides", {"rope_scaling": {"factor": 2.0}}),
        ("allowed_media_domains", ["example.com"]),
    ],
)
def test_valid_argument_value_is_accepted(name: str, value: Any) -> None:
    assert read_message(name, value) == ""


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("max_model_len", "eight", '"eight" is not what vLLM 0.29.0 takes: write a whole number'),
        ("max_model_len", 8192.5, "8192.5 is not what"),
        ("max_model_len", True, "true is not what"),
        ("max_num_seqs", [16], "[16] is not what"),
        ("enforce_eager", "yes", "write true or false"),
        ("enforce_eager", 2, "write true or false"),
        ("compilation_config", "O3", "write an object"),
        ("allowed_media_domains", "example.com", "write a list"),
        ("kv_cache_dtype", "fp9", "did you mean fp8?"),
        ("dtype", "bf16", "did you mean bfloat16?"),
        ("scheduling_policy", "lottery", "choices (fcfs, priority)"),
    ],
)
def test_invalid_argument_value_is_rejected_with_fix(name: str, value: Any, words: str) -> None:
    assert words.replace("0.29.0", versions.VLLM) in read_message(name, value)


def test_a_long_value_is_cut() -> None:
    assert len(read_message("max_model_len", ["x" * 500])) < 200


def test_arguments_of_another_vllm_are_unchecked_unless_owned() -> None:
    assert read_message("brand_new_argument", other_vllm=True) == ""
    assert read_message("max_model_len", "eight", other_vllm=True) == ""
    assert read_message("tensor_parallel_size", other_vllm=True) != ""


def test_argument_catalogue_matches_pinned_vllm_and_ray() -> None:
    text = resources.files("daybreak.api.common").joinpath("engine_args.json").read_text(encoding="utf-8")
    document = json.loads(text)
    assert (document["vllm"], document["ray"]) == (versions.VLLM, versions.RAY)
    assert not set(KNOWN.arguments) & (set(KNOWN.owned) | set(KNOWN.refused))


def test_number_of_name_suggestions_is_limited() -> None:
    """Each search for a similar name takes milliseconds and blocks all other reconciles."""
    near = {f"max_model_len{number}": 1 for number in range(engine_args.SUGGESTIONS + 5)}
    found = [wrong for _, wrong in engine_args.problems(near, other_vllm=False)]
    assert len(found) == len(near)
    assert [wrong for wrong in found if "did you mean" in wrong] == found[: engine_args.SUGGESTIONS]
    assert engine_args.nearest("max_model_len" * 8, engine_args.catalogue().arguments) is None
    assert max(map(len, engine_args.catalogue().arguments)) < engine_args.LONGEST_NAME
