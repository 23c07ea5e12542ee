"""Language model of 3 MB for the embedded cluster: real files that vLLM loads, random weights.

The model is a Qwen2 with two layers. Its byte-level BPE tokenizer is trained on the sources of Python's
standard library, so that nothing is downloaded. The same seed gives the same weights. Answers have no
meaning, but at temperature 0 the same prompt gets the same answer. The module also writes random LoRA
adapters.

    python -m cluster.images.tiny_model DIRECTORY [--seed N]
    python -m cluster.images.tiny_model DIRECTORY --adapter [--seed N] [--rank N]
"""

import argparse
import array
import json
import math
import random
import struct
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

LAYERS = 2
HIDDEN = 256
INTERMEDIATE = 512
HEADS = 8
KV_HEADS = 2
HEAD_DIM = HIDDEN // HEADS
"""Size of an attention head: 32, the minimum that vLLM's attention on CPUs supports."""
VOCABULARY = 2048
CONTEXT = 4096
"""Maximum length of prompt and answer together, in tokens."""
RANK = 4
"""Default rank of an adapter."""

_NORMS = ("norm.weight", "norm1.weight", "norm2.weight", "ln_q.weight")

END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def trained(more: Sequence[str] = ()) -> Tokenizer:
    """Train the tokenizer on the standard library's top-level modules (5 MB of text, a few seconds).

    `more` are special tokens in addition to those of a chat.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[END_OF_TEXT, START, END, *more],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    tokenizer.train_from_iterator((source.read_text(errors="replace") for source in sources), trainer)
    return tokenizer


def shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
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
    """Truncate 32-bit floats to bfloat16, little-endian: their upper two bytes."""
    wide = values.tobytes()
    narrow = bytearray(len(wide) // 2)
    narrow[0::2] = wide[2::4]
    narrow[1::2] = wide[3::4]
    return bytes(narrow)


def _adapter_shapes(rank: int, hidden: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every weight of an adapter, in PEFT's format: A narrows, B widens."""
    for layer in range(LAYERS):
        prefix = f"base_model.model.model.layers.{layer}."
        for name, narrow, wide in (
            ("self_attn.q_proj", hidden, HEADS * HEAD_DIM),
            ("self_attn.v_proj", hidden, KV_HEADS * HEAD_DIM),
            ("self_attn.o_proj", HEADS * HEAD_DIM, hidden),
            ("mlp.up_proj", hidden, INTERMEDIATE),
            ("mlp.down_proj", INTERMEDIATE, hidden),
        ):
            yield f"{prefix}{name}.lora_A.weight", (rank, narrow)
            yield f"{prefix}{name}.lora_B.weight", (wide, rank)


def safetensors(shapes: Iterable[tuple[str, tuple[int, ...]]], seed: int, spread: float = 0.1) -> bytes:
    """Return the weights as a safetensors file: length of the header, header, data."""
    dice = random.Random(seed)  # noqa: S311 -- weights, not secrets
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = bytearray()
    for name, shape in shapes:
        count = math.prod(shape)
        if name.endswith(_NORMS):
            values = array.array("f", [1.0]) * count
        elif name.endswith("bias"):
            values = array.array("f", [0.0]) * count
        else:
            values = array.array("f", (dice.uniform(-spread, spread) for _ in range(count)))
        start = len(data)
        data += _bfloat16(values)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(data)


def write(directory: Path, seed: int = 0) -> None:
    """Write the model into the directory, readable by all users (pods run under their own user)."""
    tokenizer = trained()
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
    write_documents(directory, documents)
    (directory / "tokenizer.json").write_text(tokenizer.to_str())
    (directory / "model.safetensors").write_bytes(safetensors(shapes(), seed))
    make_readable(directory)


def write_adapter(directory: Path, seed: int = 0, *, rank: int = RANK, hidden: int = HIDDEN) -> None:
    """Write a LoRA adapter into the directory, in PEFT's format.

    The weights are large enough to change the model's answers. With another `hidden`, the adapter is for a
    model of another size, and the engine must reject it.
    """
    documents = {
        "adapter_config.json": {
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": "tiny",
            "r": rank,
            "lora_alpha": 4 * rank,
            "lora_dropout": 0.0,
            "bias": "none",
            "target_modules": ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj"],
            "modules_to_save": None,
            "inference_mode": True,
        }
    }
    write_documents(directory, documents)
    weights = safetensors(_adapter_shapes(rank, hidden), seed, spread=0.2)
    (directory / "adapter_model.safetensors").write_bytes(weights)
    make_readable(directory)


def write_documents(directory: Path, documents: Mapping[str, object]) -> None:
    """Write each document as JSON into the file of its name."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        (directory / name).write_text(json.dumps(document, indent=2) + "\n")


def make_readable(directory: Path) -> None:
    """Make the files readable by all users: pods run under their own user."""
    directory.chmod(0o755)
    for file in directory.iterdir():
        file.chmod(0o644)


def main() -> None:
    """Write one model or adapter from the command line."""
    parser = argparse.ArgumentParser(description="Make a language model of 3 MB with random weights.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="another seed, another model (default 0)")
    parser.add_argument("--adapter", action="store_true", help="a LoRA adapter for it instead")
    parser.add_argument("--rank", type=int, default=RANK, help=f"the adapter's rank (default {RANK})")
    arguments = parser.parse_args()
    if arguments.adapter:
        write_adapter(arguments.directory, arguments.seed, rank=arguments.rank)
    else:
        write(arguments.directory, arguments.seed)


if __name__ == "__main__":
    main()
