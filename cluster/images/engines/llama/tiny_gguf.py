"""Write the tiny model as a GGUF file, the format of llama.cpp.

python tiny_gguf.py MODEL_DIRECTORY FILE
"""

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np

_LAYER = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight",
    "self_attn.q_proj.bias": "attn_q.bias",
    "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.k_proj.bias": "attn_k.bias",
    "self_attn.v_proj.weight": "attn_v.weight",
    "self_attn.v_proj.bias": "attn_v.bias",
    "self_attn.o_proj.weight": "attn_output.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
}
"""Name in GGUF of each tensor of a layer of Qwen2."""
_OTHERS = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}


def name_of(tensor: str) -> str:
    """Return the name in GGUF of a tensor of Qwen2."""
    if tensor in _OTHERS:
        return _OTHERS[tensor]
    _, _, layer, rest = tensor.split(".", 3)
    return f"blk.{layer}.{_LAYER[rest]}"


def tensors(file: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yield name and values of each tensor of a safetensors file in BF16, which numpy does not have."""
    data = file.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    start = 8 + length
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            halves = np.frombuffer(data[start + first : start + last], dtype="<u2")
            # BF16 is the upper half of a number of 32 bits.
            yield name, (halves.astype("<u4") << 16).view("<f4").reshape(entry["shape"])


def write(model: Path, file: Path) -> None:
    """Write a directory of the tiny model as one GGUF file with weights of 32 bits."""
    config = json.loads((model / "config.json").read_text())
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    writer = gguf.GGUFWriter(file, "qwen2")
    writer.add_name("tiny")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    _add_tokenizer(writer, tokenizer, config)
    template = json.loads((model / "tokenizer_config.json").read_text())["chat_template"]
    writer.add_chat_template(template)
    for tensor, values in tensors(model / "model.safetensors"):
        writer.add_tensor(name_of(tensor), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: dict[str, Any], config: dict[str, Any]) -> None:
    special = {each["content"] for each in tokenizer["added_tokens"]}
    words = sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])
    tokens = [token for token, _ in words]
    kinds = [gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in tokens]
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in tokenizer["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(config["bos_token_id"])
    writer.add_eos_token_id(config["eos_token_id"])
    writer.add_add_bos_token(False)


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
