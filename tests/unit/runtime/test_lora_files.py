"""An adapter's files: whole or not there, and what is said when they cannot be had."""

from pathlib import Path

import pytest

from cluster.images import tiny_model
from daybreak_runtime.lora import files
from daybreak_runtime.lora.files import NotFetched, fetch
from daybreak_runtime.lora.wanted import Wanted, read


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "lora"


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    """A volume with an adapter, and beside it what training has left."""
    folder = tmp_path / "claim"
    tiny_model.write_adapter(folder)
    (folder / "checkpoint-1").mkdir()
    (folder / "optimizer.pt").write_bytes(b"0" * 1000)
    return folder


def test_a_directory_that_stays_is_used_where_it_is(claim: Path) -> None:
    assert fetch(Wanted("a", "1", path=str(claim))) == str(claim)


def test_of_a_volume_that_may_change_there_is_a_copy(claim: Path, cache: Path) -> None:
    wanted = Wanted("team/a", "1", path=str(claim), copy=True)
    copy = Path(fetch(wanted))
    assert copy.parent == cache
    assert {file.name for file in copy.iterdir()} >= {"adapter_config.json", "adapter_model.safetensors"}
    assert not (copy / "optimizer.pt").exists()
    weights = (claim / "adapter_model.safetensors").read_bytes()
    (claim / "adapter_model.safetensors").unlink()
    assert Path(fetch(wanted)) == copy
    assert (copy / "adapter_model.safetensors").read_bytes() == weights


def test_another_adapter_of_the_name_has_another_copy(claim: Path) -> None:
    one = fetch(Wanted("a", "1", path=str(claim), copy=True))
    two = fetch(Wanted("a", "2", path=str(claim), copy=True))
    assert one != two


def test_what_a_dead_process_has_left_is_not_used(claim: Path, cache: Path) -> None:
    (cache / "a-1").mkdir(parents=True)
    (cache / "a-1" / "adapter_config.json").write_text("{")
    copy = Path(fetch(Wanted("a", "1", path=str(claim), copy=True)))
    assert copy == cache / "a-1"
    assert (copy / "adapter_config.json").read_text() == (claim / "adapter_config.json").read_text()


def test_a_copy_that_fails_leaves_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(address: str, target: Path) -> None:
        (target / "adapter_config.json").write_text("{")
        raise OSError("403 for https://b.example.com/a?X-Amz-Signature=abc with hf_abcdefghijkl")

    monkeypatch.setattr(files, "_bucket", half)
    with pytest.raises(NotFetched) as failed:
        fetch(Wanted("a", "1", bucket="s3://b/a"))
    assert str(failed.value).startswith("s3://b/a cannot be fetched: 403")
    assert "Signature" not in str(failed.value)
    assert "hf_abc" not in str(failed.value)
    assert list(cache.iterdir()) == []


def test_a_path_that_is_not_there_is_said(tmp_path: Path) -> None:
    for copy in (False, True):
        with pytest.raises(NotFetched, match="no directory of the worker pod"):
            fetch(Wanted("a", "1", path=str(tmp_path / "none"), copy=copy))


def test_the_configuration_is_read_leniently() -> None:
    entry = {"name": "a", "id": "1", "path": "/x", "of-tomorrow": 1}
    assert read({"lora": {"adapters": [entry]}}) == {"a": Wanted("a", "1", path="/x")}
    assert read(None) == read({}) == read({"lora": {}}) == {}
