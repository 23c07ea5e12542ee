"""Descriptions that scripts/schemas/engine_args.py extracts from vLLM's argument classes."""

import enum
import importlib
import runpy
import types
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "schemas" / "engine_args.py"))


class Backend(enum.Enum):
    FAST = "fast"


@dataclass
class Nested:
    value: int = 0


@dataclass
class Empty:
    """A class without arguments."""


@dataclass
class Arguments:
    """A class with the forms of annotations that vLLM's classes use."""

    length: int = None  # type: ignore[assignment]  # vLLM writes some like this
    names: list[str] | None = None
    nested: Nested = field(default_factory=Nested)
    _private: int = 0


@pytest.mark.parametrize(
    ("annotation", "types"),
    [
        (bool, ["boolean"]),
        (int | None, ["integer", "null"]),
        (float | str, ["number", "string"]),
        (Literal["auto", 1], ["integer", "string"]),
        (Annotated[str, "about it"], ["string"]),
        (set[str], ["array"]),
        (dict[str, Any] | Callable[[], None], ["object"]),
        (Nested, ["object"]),
        (Backend | None, ["null", "string"]),
        (type[object], []),
    ],
)
def test_json_types_match_type_annotation(annotation: object, types: list[str]) -> None:
    assert SCRIPT["json_types"](annotation) == types


def test_choices_are_listed_only_if_no_other_value_is_allowed() -> None:
    assert SCRIPT["choices"](Literal["b", "a"] | None) == ["a", "b"]
    assert SCRIPT["choices"](Literal["auto"] | str) == []


def test_description_states_type_json_types_and_default() -> None:
    described = {entry.name: SCRIPT["describe"](entry, entry.type) for entry in fields(Arguments)}
    assert described["length"] == {"type": "int", "json": ["integer", "null"], "default": None}
    assert described["names"] == {"type": "list[str] | None", "json": ["array", "null"], "default": None}
    assert described["nested"] == {"type": "Nested", "json": ["object"]}


def test_unreviewed_argument_stops_script() -> None:
    with pytest.raises(SystemExit, match="length of Arguments is new"):
        SCRIPT["collect"](Nested, Arguments)


def test_an_argument_that_vllm_dropped_stops_the_script() -> None:
    with pytest.raises(SystemExit, match=r"vLLM no longer has .*tensor_parallel_size"):
        SCRIPT["collect"](Arguments, Empty)


def test_render_writes_one_line_per_argument() -> None:
    text = SCRIPT["render"]({"vllm": "1", "arguments": {"b": {"y": 1, "x": 2}, "a": {}}})
    assert text == '{\n "arguments": {\n  "a": {},\n  "b": {"x": 2, "y": 1}\n },\n "vllm": "1"\n}\n'


def test_only_gpus_are_accelerator_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """For other devices Ray counts another resource than the GPU that a replica requests."""
    ray = types.ModuleType("ray.util.accelerators.accelerators")
    vars(ray).update(
        NVIDIA_TESLA_A10G="A10G",
        AMD_INSTINCT_MI100="AMD-Instinct-MI100",
        INTEL_MAX_1550="Intel-GPU-Max-1550",
        INTEL_GAUDI="Intel-GAUDI",
        AWS_NEURON_CORE="aws-neuron-core",
        GOOGLE_TPU_V2="TPU-V2",
        HUAWEI_NPU_910B="Ascend910B",
        A_FURIOSA="FURIOSA_RNGD",
        A_MOBILINT="MOBILINT_REGULUS",
        AN_APPLE="Apple-Silicon",
        ANOTHER_APPLE="M3-Ultra",
        A_MAC="M1",
        METAX="MXC500",
    )
    monkeypatch.setattr(importlib, "import_module", lambda _: ray)
    assert SCRIPT["accelerator_types"]() == [
        "A10", "A10G", "AMD-Instinct-MI100", "Intel-GPU-Max-1550", "MXC500",
    ]  # fmt: skip
