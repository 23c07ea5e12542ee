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
def test_an_unknown_name_gets_its_nearest(wrong: str, near: str) -> None:
    assert read_message(wrong) == f"vLLM {versions.VLLM} has no such argument; did you mean {near}?"


def test_a_name_like_no_other_gets_no_guess() -> None:
    assert read_message("zzzzzz") == f"vLLM {versions.VLLM} has no such argument, and none of a similar name"


def test_a_name_near_one_of_ours_leads_to_our_field() -> None:
    assert read_message("tensor_parallel").endswith("use the model's field parallelism.tensor")


@pytest.mark.parametrize("name", sorted(KNOWN.owned))
def test_what_has_a_field_is_refused_with_the_field(name: str) -> None:
    field = KNOWN.owned[name].removeprefix("spec.models[].")
    assert read_message(name) == f"Daybreak sets this argument; use the model's field {field}"
    part: Any = Model
    for step in field.split("."):
        found = {f.alias: f.annotation for f in part.model_fields.values()}[step]
        # An optional part has the annotation `Part | None`.
        part = next((one for one in get_args(found) if one is not type(None)), found)


@pytest.mark.parametrize("name", sorted(KNOWN.refused))
def test_what_cannot_work_is_refused_with_the_reason(name: str) -> None:
    assert KNOWN.refused[name] in read_message(name)
    assert KNOWN.refused[name] in read_message(name, other_vllm=True)


def test_reasons_name_only_fields_that_exist() -> None:
    top = {field.alias for field in LLMServiceSpec.model_fields.values()}
    own = {field.alias for field in Model.model_fields.values()}
    assert "models" in top
    for reason in KNOWN.refused.values():
        for word in reason.replace(",", " ").replace(";", " ").split():
            if word.startswith("spec.models[]."):
                assert word.removeprefix("spec.models[].") in own


@pytest.mark.parametrize("name", sorted(KNOWN.arguments))
def test_vllms_own_default_is_taken(name: str) -> None:
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
def test_what_vllm_takes_is_taken(name: str, value: Any) -> None:
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
def test_what_vllm_cannot_take_is_refused(name: str, value: Any, words: str) -> None:
    assert words.replace("0.29.0", versions.VLLM) in read_message(name, value)


def test_a_long_value_is_cut() -> None:
    assert len(read_message("max_model_len", ["x" * 500])) < 200


def test_another_vllm_judges_its_own_arguments() -> None:
    assert read_message("brand_new_argument", other_vllm=True) == ""
    assert read_message("max_model_len", "eight", other_vllm=True) == ""
    assert read_message("tensor_parallel_size", other_vllm=True) != ""


def test_the_list_is_of_the_pinned_versions() -> None:
    text = resources.files("daybreak.api.common").joinpath("engine_args.json").read_text(encoding="utf-8")
    document = json.loads(text)
    assert (document["vllm"], document["ray"]) == (versions.VLLM, versions.RAY)
    assert not set(KNOWN.arguments) & (set(KNOWN.owned) | set(KNOWN.refused))


def test_a_similar_name_is_looked_for_a_few_times_only() -> None:
    """Each search for a similar name takes milliseconds and blocks all other reconciles."""
    near = {f"max_model_len{number}": 1 for number in range(engine_args.SUGGESTIONS + 5)}
    found = [wrong for _, wrong in engine_args.problems(near, other_vllm=False)]
    assert len(found) == len(near)
    assert [wrong for wrong in found if "did you mean" in wrong] == found[: engine_args.SUGGESTIONS]
    assert engine_args.nearest("max_model_len" * 8, engine_args.catalogue().arguments) is None
    assert max(map(len, engine_args.catalogue().arguments)) < engine_args.LONGEST_NAME
