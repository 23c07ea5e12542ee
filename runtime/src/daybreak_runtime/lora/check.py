"""Check that an adapter fits the model, from its files, before the engine reads them.

vLLM itself compares no sizes. It copies an adapter's weights into memory sized for the base model's. Larger
weights fail with an error of torch. Smaller ones are accepted, so that an adapter of a smaller model answers
with nonsense [seen with vLLM 0.29].
"""

import json
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Shapes = Mapping[str, tuple[int, int]]
"""Linear layers of the base model by name: number of input values, number of output values."""

_HEADER_LIMIT = 100 * 2**20
_PREFIX = "base_model.model."


class Refused(Exception):
    """The adapter cannot be used as it is."""


def check(directory: str, max_rank: int, base: Shapes | None) -> None:
    """Check an adapter's files; `base` is None if the model's layers are unknown.

    Raises Refused, with the reason in one sentence.
    """
    config = _config(Path(directory))
    _features(config)
    tensors = _tensors(Path(directory))
    _ranks(config, tensors, max_rank)
    if base is not None:
        _sizes(config, tensors, base)


def _config(directory: Path) -> Mapping[str, Any]:
    try:
        config = json.loads((directory / "adapter_config.json").read_text())
    except FileNotFoundError:
        raise Refused("it has no adapter_config.json, so it is no adapter in PEFT's form") from None
    except ValueError as error:
        raise Refused(f"its adapter_config.json cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise Refused("its adapter_config.json is no JSON object")
    return config


def _features(config: Mapping[str, Any]) -> None:
    """Reject features of PEFT that vLLM lacks, some of which it would silently omit."""
    kind = config.get("peft_type", "LORA")
    if kind != "LORA":
        raise Refused(f"it is of the type {kind}; vLLM takes LORA")
    if config.get("use_dora"):
        raise Refused("it uses DoRA (use_dora), which vLLM does not have")
    if config.get("bias", "none") != "none":
        raise Refused(f"it has biases (bias: {config['bias']}), which vLLM does not take")
    if config.get("modules_to_save"):
        saved = ", ".join(map(str, config["modules_to_save"]))
        raise Refused(f"it replaces whole layers (modules_to_save: {saved}), which vLLM does not do")
    for pattern in ("rank_pattern", "alpha_pattern"):
        if config.get(pattern):
            raise Refused(f"its layers differ in rank or alpha ({pattern}), and vLLM takes one for all")
    if not isinstance(config.get("r"), int) or config["r"] < 1:
        raise Refused("its adapter_config.json says no rank (r)")


def _tensors(directory: Path) -> Mapping[str, tuple[int, ...]] | None:
    """Return the shapes of the weights, or None for files in torch's own format.

    Only torch can read those.
    """
    file = directory / "adapter_model.safetensors"
    if not file.is_file():
        if any((directory / name).is_file() for name in ("adapter_model.bin", "adapter_model.pt")):
            return None
        raise Refused("it has no weights (adapter_model.safetensors)")
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            if length > _HEADER_LIMIT:
                raise ValueError("its header is too long")
            header = json.loads(stream.read(length))
        return {name: tuple(entry["shape"]) for name, entry in header.items() if name != "__metadata__"}
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"its adapter_model.safetensors cannot be read: {error}") from None


def _ranks(config: Mapping[str, Any], tensors: Mapping[str, tuple[int, ...]] | None, max_rank: int) -> None:
    ranks = [shape[0] for name, shape in (tensors or {}).items() if ".lora_A." in name and len(shape) == 2]
    rank = max([config["r"], *ranks])
    if rank > max_rank:
        raise Refused(f"its rank is {rank}, and the model takes {max_rank} at most: see lora.maxRank")


def _sizes(config: Mapping[str, Any], tensors: Mapping[str, tuple[int, ...]] | None, base: Shapes) -> None:
    if tensors is None:
        return
    found, strange, patterns = 0, "", {_any_layer(name) for name in base}
    for name, shape in tensors.items():
        layer, side = _layer(name)
        if not layer or len(shape) != 2:
            continue
        if layer not in base:
            if _any_layer(layer) in patterns:
                raise Refused(
                    f"it is for a model with more layers: the base has no {layer}{_base_model(config)}"
                )
            strange = strange or layer
            continue
        found += 1
        narrow, wide = base[layer]
        has, desired = (shape[1], narrow) if side == "A" else (shape[0], wide)
        if has != desired:
            sizes = f"the base's {layer} {'takes' if side == 'A' else 'gives'} {desired} values, not {has}"
            raise Refused(f"it is for a model of another size: {sizes}{_base_model(config)}")
    if not found and strange:
        raise Refused(f"it is for another kind of model: the base has no {strange}, nor its other layers")


def _layer(tensor: str) -> tuple[str, str]:
    """Return the layer of a weight, and A or B; empty if it is not part of a linear layer's pair."""
    match = re.fullmatch(r"(.+)\.lora_([AB])(?:\.default)?\.weight", tensor)
    if match is None:
        return "", ""
    return match[1].removeprefix(_PREFIX), match[2]


def _any_layer(name: str) -> str:
    return re.sub(r"\.\d+(?=\.)", ".*", name)


def _base_model(config: Mapping[str, Any]) -> str:
    """Return the base model that the adapter names, for messages."""
    base = config.get("base_model_name_or_path")
    return f" (it says that it was made for {base})" if base else ""
