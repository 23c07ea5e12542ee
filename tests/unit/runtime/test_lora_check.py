"""Checks of adapters for compatibility, on files as PEFT writes them, like the tiny adapters."""

import json
from pathlib import Path
from typing import Any

import pytest

from cluster.images import tiny_model
from daybreak_runtime.lora.check import Refused, Shapes, check

BASE: Shapes = {
    f"model.layers.{layer}.{name}": sizes
    for layer in range(tiny_model.LAYERS)
    for name, sizes in {
        "self_attn.q_proj": (256, 256),
        "self_attn.v_proj": (256, 64),
        "self_attn.o_proj": (256, 256),
        "mlp.up_proj": (256, 512),
        "mlp.down_proj": (512, 256),
    }.items()
}
"""Linear layers of the tiny model: what goes in, and what comes out."""


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    """Return an adapter that fits."""
    tiny_model.write_adapter(tmp_path)
    return tmp_path


def edit(adapter: Path, **fields: Any) -> None:
    """Change fields of the adapter's configuration."""
    file = adapter / "adapter_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def refusal(adapter: Path, max_rank: int = 8, base: Shapes | None = BASE) -> str:
    """Return the reason for the rejection."""
    with pytest.raises(Refused) as refused:
        check(str(adapter), max_rank, base)
    return str(refused.value)


def test_compatible_adapter_is_accepted(adapter: Path) -> None:
    check(str(adapter), 8, BASE)
    check(str(adapter), tiny_model.RANK, BASE)
    check(str(adapter), 8, None)


def test_rank_above_limit_is_rejected_with_field_name(adapter: Path) -> None:
    tiny_model.write_adapter(adapter, rank=64)
    assert refusal(adapter, 16) == "its rank is 64, and the model takes 16 at most: see lora.maxRank"


def test_rank_of_weights_above_limit_is_rejected(adapter: Path) -> None:
    tiny_model.write_adapter(adapter, rank=64)
    edit(adapter, r=4)
    assert "its rank is 64" in refusal(adapter, 16)


@pytest.mark.parametrize("hidden", [128, 512])
def test_adapter_for_smaller_or_larger_model_is_rejected(adapter: Path, hidden: int) -> None:
    """vLLM takes the smaller one silently."""
    tiny_model.write_adapter(adapter, hidden=hidden)
    message = refusal(adapter)
    assert "model.layers.0.self_attn.q_proj takes 256 values, not " + str(hidden) in message
    assert "made for tiny" in message


def test_adapter_for_deeper_model_is_rejected(adapter: Path) -> None:
    shallow = {name: sizes for name, sizes in BASE.items() if ".0." in name}
    assert "more layers: the base has no model.layers.1." in refusal(adapter, base=shallow)


def test_adapter_for_other_architecture_is_rejected(adapter: Path) -> None:
    other = {"transformer.h.0.attn.c_attn": (256, 768)}
    assert "another kind of model: the base has no model.layers.0." in refusal(adapter, base=other)


def test_layer_without_known_base_shape_is_accepted(adapter: Path) -> None:
    partly = {name: sizes for name, sizes in BASE.items() if "down_proj" not in name}
    check(str(adapter), 8, partly)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"peft_type": "IA3"}, "type IA3"),
        ({"use_dora": True}, "DoRA"),
        ({"bias": "all"}, "bias: all"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save: lm_head"),
        ({"rank_pattern": {"q_proj": 8}}, "rank_pattern"),
        ({"alpha_pattern": {"q_proj": 8}}, "alpha_pattern"),
        ({"r": 0}, "no rank"),
    ],
)
def test_unsupported_adapter_feature_is_rejected_by_name(
    adapter: Path, fields: dict[str, Any], message: str
) -> None:
    edit(adapter, **fields)
    assert message in refusal(adapter)


def test_invalid_or_missing_adapter_files_are_rejected(adapter: Path) -> None:
    (adapter / "adapter_model.safetensors").write_bytes(b"<html>")
    assert "adapter_model.safetensors cannot be read" in refusal(adapter)
    (adapter / "adapter_model.safetensors").unlink()
    assert "no weights" in refusal(adapter)
    (adapter / "adapter_config.json").write_text("[]")
    assert "no JSON object" in refusal(adapter)
    (adapter / "adapter_config.json").unlink()
    assert "no adapter_config.json" in refusal(adapter)


def test_weights_in_torch_format_are_accepted(adapter: Path) -> None:
    (adapter / "adapter_model.safetensors").rename(adapter / "adapter_model.bin")
    check(str(adapter), 8, BASE)
