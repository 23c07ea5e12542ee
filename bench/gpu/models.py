"""Models for measurements, generated on the machine so that nothing is downloaded."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from cluster.images import tiny_model

SHAPES = ("tiny", "8b")

_LLAMA_8B: Mapping[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "dtype": "bfloat16",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
}
"""Sizes of Llama 3.1 8B. The weights are not needed: their values do not affect the time."""


def make(shape: str, folder: Path) -> Path:
    """Write the model of a shape to the folder, unless it exists, and return its path."""
    place = folder / shape
    if not (place / "made").exists():
        tiny_model.write(place)
        if shape == "8b":
            _widen(place)
        (place / "made").touch()
    return place


def dummy_weights(shape: str) -> bool:
    """Return True if the engine must generate dummy weights itself (`load_format: dummy`)."""
    return shape == "8b"


def _widen(place: Path) -> None:
    """Convert the tiny model's folder to one with Llama 3.1 8B's shape without weights.

    The tokenizer gets as many entries as the real one has. The entries do not come from text, but each
    decodes to some letters. Therefore an answer is as long on the wire as a real one.
    """
    (place / "model.safetensors").unlink()
    file = place / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    vocabulary: dict[str, int] = tokenizer["model"]["vocab"]
    size = int(_LLAMA_8B["vocab_size"])
    vocabulary.update({f"Ġ{_letters(number)}": number for number in range(len(vocabulary), size)})
    file.write_text(json.dumps(tokenizer))
    config = json.loads((place / "config.json").read_text())
    ends = {key: config[key] for key in ("bos_token_id", "eos_token_id")}
    (place / "config.json").write_text(json.dumps(dict(_LLAMA_8B) | ends, indent=2) + "\n")
    of_tokenizer = json.loads((place / "tokenizer_config.json").read_text())
    of_tokenizer["model_max_length"] = _LLAMA_8B["max_position_embeddings"]
    (place / "tokenizer_config.json").write_text(json.dumps(of_tokenizer, indent=2) + "\n")
    found = Tokenizer.from_file(str(file)).get_vocab_size()
    if found != size:
        raise ValueError(f"the tokenizer has {found} entries instead of {size}")


def _letters(number: int) -> str:
    """Return unique letters for a number; they begin with `Q`, unlike any word here."""
    text = ""
    while number:
        number, rest = divmod(number, 26)
        text = chr(ord("a") + rest) + text
    return f"Q{text}"
