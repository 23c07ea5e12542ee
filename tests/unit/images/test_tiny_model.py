"""The tiny model: vLLM and the tokenizers can read its files."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from cluster.images import tiny_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_model.write(folder)
    return folder


def weights(folder: Path) -> tuple[dict[str, dict[str, Any]], bytes]:
    content = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__")
    return header, content[8 + length :]


def test_weights_fill_the_file_and_fit_the_configuration(model: Path) -> None:
    header, data = weights(model)
    config = json.loads((model / "config.json").read_text())
    assert header["model.embed_tokens.weight"]["shape"] == [config["vocab_size"], config["hidden_size"]]
    assert len([name for name in header if name.endswith("q_proj.weight")]) == config["num_hidden_layers"]
    ends = [entry["data_offsets"][1] for entry in header.values()]
    assert max(ends) == len(data)
    assert len(data) < 4_000_000
    assert config["hidden_size"] // config["num_attention_heads"] >= 32  # minimum of vLLM on CPUs


def test_norm_weights_are_one_and_embedding_weights_vary(model: Path) -> None:
    header, data = weights(model)
    start, end = header["model.norm.weight"]["data_offsets"]
    assert data[start:end] == struct.pack("<H", 0x3F80) * tiny_model.HIDDEN  # 1.0 as bfloat16
    start, end = header["model.embed_tokens.weight"]["data_offsets"]
    assert len(set(struct.unpack(f"<{(end - start) // 2}H", data[start:end]))) > 1000


def test_tokenizer_decodes_its_encoded_text_unchanged(model: Path) -> None:
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    text = "def café(x):\n    return x  # naïve"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text
    config = json.loads((model / "config.json").read_text())
    assert tokenizer.get_vocab_size() == config["vocab_size"]
    assert tokenizer.token_to_id(tiny_model.END) == config["eos_token_id"]


def test_model_depends_only_on_seed(model: Path, tmp_path: Path) -> None:
    tiny_model.write(tmp_path / "same")
    tiny_model.write(tmp_path / "other", seed=1)
    for file in model.iterdir():
        assert (tmp_path / "same" / file.name).read_bytes() == file.read_bytes()
    ours, other = (folder / "model.safetensors" for folder in (model, tmp_path / "other"))
    assert ours.read_bytes() != other.read_bytes()


def test_model_files_are_readable_by_all_users(model: Path) -> None:
    assert {oct(file.stat().st_mode & 0o777) for file in model.iterdir()} == {"0o644"}
    assert oct(model.stat().st_mode & 0o777) == "0o755"


def test_adapters_have_peft_format_and_weights_depend_on_seed(tmp_path: Path) -> None:
    for name, seed in {"one": 1, "same": 1, "two": 2}.items():
        tiny_model.write_adapter(tmp_path / name, seed, rank=8)
    config = json.loads((tmp_path / "one" / "adapter_config.json").read_text())
    content = (tmp_path / "one" / "adapter_model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__")
    narrow = {entry["shape"][0] for name, entry in header.items() if ".lora_A." in name}
    wide = {entry["shape"][1] for name, entry in header.items() if ".lora_B." in name}
    assert narrow == wide == {config["r"]} == {8}
    assert {name.split(".")[-3] for name in header} == set(config["target_modules"])
    weights = {
        name: (tmp_path / name / "adapter_model.safetensors").read_bytes() for name in ("one", "same", "two")
    }
    assert weights["one"] == weights["same"] != weights["two"]
