"""Vision-language model of a few MB: real files that vLLM loads, random weights.

The model is a Qwen2-VL: the tiny model's text layers after a vision tower of one layer. Answers have no
meaning. At temperature 0, the same prompt and picture get the same answer, and another picture gets another
one.

    python -m cluster.images.tiny_seeing_model DIRECTORY [--seed N]
"""

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path

from cluster.images import tiny_model
from cluster.images.tiny_model import CONTEXT, HIDDEN, INTERMEDIATE, START, VOCABULARY

EMBED = 64
"""Width of the vision tower."""
VISION_HEADS = 2
PATCH = 14
"""Edge length of a patch, in pixels."""
MERGED = 2
"""Number of patches per edge that are merged into one token."""
MOST_PIXELS = 64 * (PATCH * MERGED) ** 2
"""Maximum pixels of an image, 64 tokens; larger images are scaled down."""
VISION_START, VISION_END, IMAGE, VIDEO = (
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
SPECIAL = (VISION_START, VISION_END, IMAGE, VIDEO)
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}"
    "{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}"
    "{{ '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
_VISION_CONFIG = {
    "model_type": "qwen2_vl",
    "depth": 1,
    "embed_dim": EMBED,
    "hidden_size": HIDDEN,
    "num_heads": VISION_HEADS,
    "mlp_ratio": 4,
    "in_channels": 3,
    "patch_size": PATCH,
    "spatial_merge_size": MERGED,
    "temporal_patch_size": 2,
}
_PREPROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2VLProcessor",
    "min_pixels": 4 * (PATCH * MERGED) ** 2,
    "max_pixels": MOST_PIXELS,
    "patch_size": PATCH,
    "temporal_patch_size": 2,
    "merge_size": MERGED,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}


def _shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every weight, as in Qwen2-VL's files."""
    yield from tiny_model.shapes()
    yield "visual.patch_embed.proj.weight", (EMBED, 3, 2, PATCH, PATCH)
    block = "visual.blocks.0."
    for name, out, into in (
        ("attn.qkv", 3 * EMBED, EMBED),
        ("attn.proj", EMBED, EMBED),
        ("mlp.fc1", 4 * EMBED, EMBED),
        ("mlp.fc2", EMBED, 4 * EMBED),
    ):
        yield f"{block}{name}.weight", (out, into)
        yield f"{block}{name}.bias", (out,)
    for name in (f"{block}norm1", f"{block}norm2", "visual.merger.ln_q"):
        yield f"{name}.weight", (EMBED,)
        yield f"{name}.bias", (EMBED,)
    wide = EMBED * MERGED**2
    for name, out in (("0", wide), ("2", HIDDEN)):
        yield f"visual.merger.mlp.{name}.weight", (out, wide)
        yield f"visual.merger.mlp.{name}.bias", (out,)


def write(directory: Path, seed: int = 0) -> None:
    """Write the model into the directory, readable by all users."""
    tokenizer = tiny_model.trained(SPECIAL)
    ids = {
        token: tokenizer.token_to_id(token) for token in (tiny_model.END_OF_TEXT, tiny_model.END, *SPECIAL)
    }
    text_end, end = ids[tiny_model.END_OF_TEXT], ids[tiny_model.END]
    tiny_model.write_documents(
        directory,
        {
            "config.json": _config(ids),
            "generation_config.json": {
                "bos_token_id": text_end,
                "pad_token_id": text_end,
                "eos_token_id": [end, text_end],
            },
            "tokenizer_config.json": _tokenizer_config(),
            "preprocessor_config.json": _PREPROCESSOR,
        },
    )
    (directory / "tokenizer.json").write_text(tokenizer.to_str())
    (directory / "model.safetensors").write_bytes(tiny_model.safetensors(_shapes(), seed))
    tiny_model.make_readable(directory)


def _config(ids: Mapping[str, int | None]) -> dict[str, object]:
    """Return the model's configuration; `ids` are those of the special tokens."""
    half = tiny_model.HEAD_DIM // 2
    return {
        "architectures": ["Qwen2VLForConditionalGeneration"],
        "model_type": "qwen2_vl",
        "dtype": "bfloat16",
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": tiny_model.LAYERS,
        "num_attention_heads": tiny_model.HEADS,
        "num_key_value_heads": tiny_model.KV_HEADS,
        "max_position_embeddings": CONTEXT,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        # Shares of a head's rotations: for time, height and width.
        "rope_scaling": {"type": "mrope", "mrope_section": [half // 4, half * 3 // 8, half * 3 // 8]},
        "tie_word_embeddings": True,
        "use_sliding_window": False,
        "bos_token_id": ids[tiny_model.END_OF_TEXT],
        "eos_token_id": ids[tiny_model.END],
        "image_token_id": ids[IMAGE],
        "video_token_id": ids[VIDEO],
        "vision_start_token_id": ids[VISION_START],
        "vision_end_token_id": ids[VISION_END],
        "vision_config": _VISION_CONFIG,
    }


def _tokenizer_config() -> dict[str, object]:
    """Return the tokenizer's configuration, with the chat template."""
    return {
        "tokenizer_class": "Qwen2TokenizerFast",
        "model_max_length": CONTEXT,
        "bos_token": None,
        "eos_token": tiny_model.END,
        "pad_token": tiny_model.END_OF_TEXT,
        "additional_special_tokens": [START, tiny_model.END, *SPECIAL],
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }


def main() -> None:
    """Write one model from the command line."""
    parser = argparse.ArgumentParser(description="Make a model that sees, of a few MB with random weights.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="another seed, another model (default 0)")
    arguments = parser.parse_args()
    write(arguments.directory, arguments.seed)


if __name__ == "__main__":
    main()
