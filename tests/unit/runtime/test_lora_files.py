"""Files of an adapter: complete or absent, and the message if they cannot be fetched."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pyarrow.fs
import pytest

from cluster.images import tiny_model
from daybreak_runtime.lora import files
from daybreak_runtime.lora.desired import DesiredAdapter, read
from daybreak_runtime.lora.files import NotFetched, fetch
from tests.unit.pod_programs.fake_hub import COMMIT, TOKEN, Hub, fake_hub
from tests.unit.runtime.fake_buckets import ACCESS_KEY, SECRET_KEY, Buckets, served

FETCH = """
import sys
from daybreak_runtime.lora.files import NotFetched, fetch
from daybreak_runtime.lora.desired import DesiredAdapter
try:
    desired = DesiredAdapter("a", "1", repository=sys.argv[1], revision=sys.argv[2], token="ADAPTER_TOKEN")
    print(fetch(desired))
except NotFetched as error:
    sys.exit(str(error))
"""
"""The client of the Hub reads its address on import, so it runs in a separate process."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a separate cache folder, and return the folder of adapters in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "lora"


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    """Return a volume with an adapter, alongside leftovers of its training."""
    folder = tmp_path / "claim"
    tiny_model.write_adapter(folder)
    (folder / "checkpoint-1").mkdir()
    (folder / "optimizer.pt").write_bytes(b"0" * 1000)
    return folder


def test_adapter_directory_is_used_in_place_if_copy_is_not_requested(claim: Path) -> None:
    assert fetch(DesiredAdapter("a", "1", path=str(claim))) == str(claim)


def test_adapter_on_mutable_volume_is_copied_and_copy_is_reused(claim: Path, cache: Path) -> None:
    desired = DesiredAdapter("team/a", "1", path=str(claim), copy=True)
    copy = Path(fetch(desired))
    assert copy.parent == cache
    assert {file.name for file in copy.iterdir()} >= {"adapter_config.json", "adapter_model.safetensors"}
    assert not (copy / "optimizer.pt").exists()
    weights = (claim / "adapter_model.safetensors").read_bytes()
    (claim / "adapter_model.safetensors").unlink()
    assert Path(fetch(desired)) == copy
    assert (copy / "adapter_model.safetensors").read_bytes() == weights


def test_adapter_with_same_name_and_other_id_has_separate_copy(claim: Path) -> None:
    one = fetch(DesiredAdapter("a", "1", path=str(claim), copy=True))
    two = fetch(DesiredAdapter("a", "2", path=str(claim), copy=True))
    assert one != two


def test_incomplete_copy_of_dead_process_is_replaced(claim: Path, cache: Path) -> None:
    (cache / "a-1").mkdir(parents=True)
    (cache / "a-1" / "adapter_config.json").write_text("{")
    copy = Path(fetch(DesiredAdapter("a", "1", path=str(claim), copy=True)))
    assert copy == cache / "a-1"
    assert (copy / "adapter_config.json").read_text() == (claim / "adapter_config.json").read_text()


def test_failed_copy_leaves_no_files_and_redacts_secrets(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(address: str, target: Path) -> None:
        (target / "adapter_config.json").write_text("{")
        raise OSError("403 for https://b.example.com/a?X-Amz-Signature=abc with hf_abcdefghijkl")

    monkeypatch.setattr(files, "_bucket", half)
    with pytest.raises(NotFetched) as failed:
        fetch(DesiredAdapter("a", "1", bucket="s3://b/a"))
    assert str(failed.value).startswith("s3://b/a cannot be fetched: 403")
    assert "Signature" not in str(failed.value)
    assert "hf_abc" not in str(failed.value)
    assert list(cache.iterdir()) == []


def test_missing_adapter_path_is_reported(tmp_path: Path) -> None:
    for copy in (False, True):
        with pytest.raises(NotFetched, match="no directory of the worker pod"):
            fetch(DesiredAdapter("a", "1", path=str(tmp_path / "none"), copy=copy))


def test_unknown_and_missing_configuration_fields_are_ignored() -> None:
    entry = {"name": "a", "id": "1", "path": "/x", "of-tomorrow": 1}
    assert read({"lora": {"adapters": [entry]}}) == {"a": DesiredAdapter("a", "1", path="/x")}
    assert read(None) == read({}) == read({"lora": {}}) == {}


@pytest.fixture
def hub(tmp_path: Path, claim: Path) -> Iterator[Hub]:
    """Serve a Hub with the adapter in two repositories, one of which is gated."""
    for name in ("adapter", "gated-adapter"):
        shutil.copytree(claim, tmp_path / "hub" / "owner" / name)
    with fake_hub(tmp_path / "hub") as server:
        yield server


def fetched(hub: Hub, repository: str, revision: str = "", **environment: str) -> tuple[Path, str]:
    """Return the path of the adapter's files, and the error output."""
    own = {
        "HF_ENDPOINT": hub.url,
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HOME": str(hub.folder / "home"),
        "NO_PROXY": "*",
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", FETCH, repository, revision]
    done = subprocess.run(  # noqa: S603
        command, env=own | environment, capture_output=True, check=False, text=True
    )
    return Path(done.stdout.strip()), done.stderr


@pytest.mark.parametrize("revision", ["", COMMIT])
def test_only_adapter_files_of_repository_are_fetched(hub: Hub, revision: str) -> None:
    path, _ = fetched(hub, "owner/adapter", revision)
    assert {"adapter_config.json", "adapter_model.safetensors"} <= {file.name for file in path.iterdir()}
    assert "optimizer.pt" not in hub.fetched
    assert path.name == COMMIT


def test_gated_repository_is_fetched_only_with_token_of_adapter(hub: Hub) -> None:
    _, message = fetched(hub, "owner/gated-adapter")
    assert message.startswith("owner/gated-adapter cannot be fetched: ")
    path, _ = fetched(hub, "owner/gated-adapter", ADAPTER_TOKEN=TOKEN)
    assert (path / "adapter_config.json").is_file()


class CloudFileSystem:
    """Fake of Ray's class with the used method only: it copies the files below a bucket address."""

    @staticmethod
    def download_files(path: str, bucket_uri: str) -> None:
        """Copy the files."""
        source = pyarrow.fs.S3FileSystem(endpoint_override=os.environ["AWS_ENDPOINT_URL"])
        pyarrow.fs.copy_files(bucket_uri.removeprefix("s3://"), path, source_filesystem=source)


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch) -> Iterator[Buckets]:
    """A bucket `shop` for Ray's class, which the tests' environment does not have."""
    module = ModuleType("cloud_utils")
    module.CloudFileSystem = CloudFileSystem  # type: ignore[attr-defined]
    parts = ["ray", "llm", "_internal", "common", "utils", "cloud_utils"]
    for end in range(1, len(parts)):
        monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(parts[end - 1]))
    monkeypatch.setitem(sys.modules, ".".join(parts), module)
    found = Buckets("shop")
    with served(found) as url:
        for name, value in {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "eu-central-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }.items():
            monkeypatch.setenv(name, value)
        yield found


def test_adapter_in_bucket_is_downloaded_once(buckets: Buckets, claim: Path, cache: Path) -> None:
    for file in claim.glob("adapter*"):
        buckets.objects[f"shop/adapters/a/{file.name}"] = file.read_bytes()
    desired = DesiredAdapter("a", "1", bucket="s3://shop/adapters/a")
    copy = Path(fetch(desired))
    assert copy == cache / "a-1"
    for file in claim.glob("adapter*"):
        assert (copy / file.name).read_bytes() == file.read_bytes()
    buckets.objects.clear()
    assert Path(fetch(desired)) == copy


def test_missing_adapter_in_bucket_is_reported(buckets: Buckets, cache: Path) -> None:
    with pytest.raises(NotFetched, match="s3://shop/none"):
        fetch(DesiredAdapter("a", "1", bucket="s3://shop/none"))
    assert list(cache.iterdir()) == []
