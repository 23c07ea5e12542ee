"""A language model of 3 MB for the embedded cluster: real files that vLLM loads, random weights.

A Qwen2 with two layers and a byte-level BPE tokenizer trained on the sources of Python's standard library, so
that nothing is downloaded. The same seed gives the same weights; what it says has no meaning, but it says the
same to the same question at temperature 0.

    python -m cluster.tiny_model DIRECTORY [--seed N]
"""

import argparse
import array
import json
import random
import struct
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

LAYERS = 2
HIDDEN = 256
INTERMEDIATE = 512
HEADS = 8
KV_HEADS = 2
HEAD_DIM = HIDDEN // HEADS
"""32, the smallest that vLLM's attention on CPUs takes."""
VOCABULARY = 2048
CONTEXT = 4096
"""Longest prompt plus answer, in tokens."""

END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def _tokenizer() -> Tokenizer:
    """Train the tokenizer on the standard library's top-level modules (5 MB of text, a few seconds)."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    tokenizer.train_from_iterator((source.read_text(errors="replace") for source in sources), trainer)
    return tokenizer


def _shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every weight; the output layer is the embedding (tied)."""
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        for name, width in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            yield f"{prefix}self_attn.{name}_proj.weight", (width * HEAD_DIM, HIDDEN)
            yield f"{prefix}self_attn.{name}_proj.bias", (width * HEAD_DIM,)
        yield f"{prefix}self_attn.o_proj.weight", (HIDDEN, HEADS * HEAD_DIM)
        yield f"{prefix}mlp.gate_proj.weight", (INTERMEDIATE, HIDDEN)
        yield f"{prefix}mlp.up_proj.weight", (INTERMEDIATE, HIDDEN)
        yield f"{prefix}mlp.down_proj.weight", (HIDDEN, INTERMEDIATE)
        yield f"{prefix}input_layernorm.weight", (HIDDEN,)
        yield f"{prefix}post_attention_layernorm.weight", (HIDDEN,)
    yield "model.norm.weight", (HIDDEN,)


def _bfloat16(values: "array.array[float]") -> bytes:
    """Cut 32-bit floats to bfloat16, little-endian: their upper two bytes."""
    wide = values.tobytes()
    narrow = bytearray(len(wide) // 2)
    narrow[0::2] = wide[2::4]
    narrow[1::2] = wide[3::4]
    return bytes(narrow)


def _safetensors(seed: int) -> bytes:
    """Return the weights as a safetensors file: length of the header, header, data."""
    dice = random.Random(seed)  # noqa: S311 -- weights, not secrets
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = bytearray()
    for name, shape in _shapes():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        if name.endswith("norm.weight"):
            values = array.array("f", [1.0]) * count
        elif name.endswith("bias"):
            values = array.array("f", [0.0]) * count
        else:
            values = array.array("f", (dice.uniform(-0.1, 0.1) for _ in range(count)))
        start = len(data)
        data += _bfloat16(values)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(data)


def write(directory: Path, seed: int = 0) -> None:
    """Write the model into the directory, readable by everybody (pods run under their own user)."""
    tokenizer = _tokenizer()
    end_of_text, end = tokenizer.token_to_id(END_OF_TEXT), tokenizer.token_to_id(END)
    documents = {
        "config.json": {
            "architectures": ["Qwen2ForCausalLM"],
            "model_type": "qwen2",
            "dtype": "bfloat16",
            "vocab_size": VOCABULARY,
            "hidden_size": HIDDEN,
            "intermediate_size": INTERMEDIATE,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "max_position_embeddings": CONTEXT,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_theta": 10000.0,
            "tie_word_embeddings": True,
            "use_sliding_window": False,
            "bos_token_id": end_of_text,
            "eos_token_id": end,
        },
        "generation_config.json": {
            "bos_token_id": end_of_text,
            "pad_token_id": end_of_text,
            "eos_token_id": [end, end_of_text],
            "do_sample": True,
            "temperature": 0.7,
            "top_p": 0.8,
            "top_k": 20,
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": CONTEXT,
            "bos_token": None,
            "eos_token": END,
            "pad_token": END_OF_TEXT,
            "additional_special_tokens": [START, END],
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    }
    directory.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        (directory / name).write_text(json.dumps(document, indent=2) + "\n")
    (directory / "tokenizer.json").write_text(tokenizer.to_str())
    (directory / "model.safetensors").write_bytes(_safetensors(seed))
    directory.chmod(0o755)
    for file in directory.iterdir():
        file.chmod(0o644)


def main() -> None:
    """Write one model from the command line."""
    parser = argparse.ArgumentParser(description="Make a language model of 3 MB with random weights.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="another seed, another model (default 0)")
    arguments = parser.parse_args()
    write(arguments.directory, arguments.seed)


if __name__ == "__main__":
    main()
