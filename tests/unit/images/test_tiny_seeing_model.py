"""The tiny vision model: its files agree with each other. tests/by_hand/seeing_batch.py loads it."""

import json
import struct
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from cluster.images import tiny_seeing_model as seeing


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeing")
    seeing.write(folder)
    return folder


def test_image_token_ids_match_tokenizer_and_are_single_tokens(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    for token, name in zip(seeing.SPECIAL, names, strict=True):
        assert tokenizer.encode(token).ids == [config[name]]
    assert tokenizer.get_vocab_size() == config["vocab_size"]


def test_vision_tower_output_has_width_of_hidden_size(model: Path) -> None:
    content = (model / "model.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", content)
    shapes = {name: each.get("shape") for name, each in json.loads(content[8 : 8 + length]).items()}
    config = json.loads((model / "config.json").read_text())
    last = shapes["visual.merger.mlp.2.weight"]
    assert last == [config["hidden_size"], config["vision_config"]["embed_dim"] * seeing.MERGED**2]
    assert sum(config["rope_scaling"]["mrope_section"]) * 2 == shapes["model.embed_tokens.weight"][1] // 8
    assert len(content) < 4_000_000
