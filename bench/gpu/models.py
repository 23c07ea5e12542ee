"""The models that are measured: made on the spot, so that nothing is downloaded."""

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
"""The sizes of Llama 3.1 8B. Its weights are not needed: the time that they take does not depend on them."""


def make(shape: str, folder: Path) -> Path:
    """Write the model of a shape below the folder, unless it is there, and return where it is."""
    place = folder / shape
    if not (place / "made").exists():
        tiny_model.write(place)
        if shape == "8b":
            _widen(place)
        (place / "made").touch()
    return place


def dummy_weights(shape: str) -> bool:
    """Whether the engine must make the weights up itself (`load_format: dummy`)."""
    return shape == "8b"


def _widen(place: Path) -> None:
    """Make the tiny model's folder one of Llama 3.1 8B's shape without weights.

    Its tokenizer gets as many entries as the real one has. They come from no text, but each answers with some
    letters, so that an answer is as long on the wire as a real one.
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
    """A number as letters, none of which any other number has: `Q` begins each, which no word here does."""
    text = ""
    while number:
        number, rest = divmod(number, 26)
        text = chr(ord("a") + rest) + text
    return f"Q{text}"
