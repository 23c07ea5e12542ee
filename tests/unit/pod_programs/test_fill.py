"""The program that copies weights into a PVC: run as in a pod with the hub's client, and in parts."""

import errno
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daybreak.pod_programs.fill import files, gather, progress
from daybreak.pod_programs.fill.run import main
from daybreak.pod_programs.text import program
from tests.unit.pod_programs.fake_hub import COMMIT, TOKEN, Hub, fake_hub

WHOLE = {".daybreak-complete", "config.json", "model.safetensors"}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """Yield a hub with an open and a gated repository, each with the same weights in two formats."""
    for name in ("model", "gated-model"):
        repository = tmp_path / "hub" / "owner" / name
        (repository / "original").mkdir(parents=True)
        (repository / "config.json").write_text("{}")
        (repository / "model.safetensors").write_bytes(b"weights" * 1000)
        (repository / "pytorch_model.bin").write_bytes(b"the same")
        (repository / "original" / "consolidated.00.pth").write_bytes(b"the same")
    with fake_hub(tmp_path / "hub") as server:
        yield server


@pytest.fixture
def claim(tmp_path: Path) -> Path:
    """Return the mount path of the PVC."""
    folder = tmp_path / "claim"
    folder.mkdir()
    return folder


def order(claim: Path, source: str, **more: Any) -> dict[str, Any]:
    """Return the order that the program receives."""
    found = {"source": source, "revision": None, "root": str(claim), "directory": "weights", "sole": True}
    return {**found, "port": 0, **more}


def run(hub: Hub, reported: dict[str, Any], **environment: str) -> tuple[int, str]:
    """Run the program as the pod does, and return its exit status and its termination message."""
    log = hub.folder / "log"
    log.unlink(missing_ok=True)
    own = {
        "DAYBREAK_FILL": json.dumps(reported),
        "HF_ENDPOINT": hub.url,
        "HOME": str(hub.folder),
        "NO_PROXY": "*",
        "PATH": os.environ["PATH"],
        "TERMINATION_LOG": str(log),
    }
    command = [sys.executable, "-c", program("fill")]
    done = subprocess.run(command, env=own | environment, capture_output=True, check=False)  # noqa: S603
    return done.returncode, log.read_text()


def names(directory: Path) -> set[str]:
    """Return the paths of the files below a directory."""
    return {path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file()}


def test_repository_is_copied_without_duplicate_formats(hub: Hub, claim: Path) -> None:
    status, reported = run(hub, order(claim, "hf://owner/model"))
    assert (status, json.loads(reported)) == (0, {"bytes": 7002, "revision": COMMIT})
    assert names(claim / "weights") == WHOLE
    assert (claim / "weights" / "model.safetensors").read_bytes() == b"weights" * 1000


def test_complete_copy_is_not_fetched_again(hub: Hub, claim: Path) -> None:
    run(hub, order(claim, "hf://owner/model"))
    hub.fetched.clear()
    shutil.rmtree(hub.folder / "owner")
    status, reported = run(hub, order(claim, "hf://owner/model"))
    assert (status, json.loads(reported)["bytes"]) == (0, 7002)
    assert hub.fetched == []


def test_a_gated_repository_needs_the_token(hub: Hub, claim: Path) -> None:
    status, reported = run(hub, order(claim, "hf://owner/gated-model"))
    assert (status, "hf://owner/gated-model is gated: accept its terms" in reported) == (2, True)
    assert not (claim / "weights").exists()
    status, _ = run(hub, order(claim, "hf://owner/gated-model"), HF_TOKEN=TOKEN)
    assert status == 0
    assert names(claim / "weights") == WHOLE


@pytest.mark.parametrize(
    ("source", "revision", "message"),
    [
        ("hf://owner/none", None, "does not exist, or is private"),
        ("hf://owner/model", "no-such", "has no revision no-such"),
    ],
)
def test_missing_repository_or_revision_is_reported(
    hub: Hub, claim: Path, source: str, revision: str | None, message: str
) -> None:
    status, reported = run(hub, order(claim, source, revision=revision))
    assert status == 2
    assert message in reported


def test_unreachable_hub_gives_retryable_exit_status(hub: Hub, claim: Path) -> None:
    status, reported = run(hub, order(claim, "hf://owner/model"), HF_ENDPOINT="http://127.0.0.1:1")
    assert status == 1
    assert reported


class Bucket:
    """A source of this test: files by name, and the number of files that it serves before it fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **content: bytes) -> None:
        self.files, self.fetched, self.breaks_after = content, [], 1000
        monkeypatch.setattr(gather, "listed", lambda source, revision: self.source())

    fetched: list[str]

    def source(self) -> files.Source:
        """Return the source with its list of files."""
        return files.Source(
            [files.File(name, len(data)) for name, data in self.files.items()], None, self.fetch
        )

    def fetch(self, into: Path, desired: list[files.File]) -> None:
        """Copy missing files, one after the other."""
        for file in files.missing_of(into, desired):
            if len(self.fetched) >= self.breaks_after:
                (into / f"{file.path}.part").write_bytes(b"half")
                raise ConnectionError("broken off")
            (into / file.path).write_bytes(self.files[file.path])
            self.fetched.append(file.path)


def test_copy_resumes_after_interrupted_attempt(monkeypatch: pytest.MonkeyPatch, claim: Path) -> None:
    bucket = Bucket(monkeypatch, a=b"1", b=b"22")
    bucket.breaks_after = 1
    with pytest.raises(ConnectionError):
        gather.fill(order(claim, "s3://bucket"))
    assert not (claim / "weights").exists(), "no reader may take it for complete"
    bucket.breaks_after = 1000
    assert gather.fill(order(claim, "s3://bucket"))["bytes"] == 3
    assert bucket.fetched == ["a", "b"]
    assert names(claim / "weights") == {".daybreak-complete", "a", "b"}


def test_copy_reports_progress_over_http(monkeypatch: pytest.MonkeyPatch, claim: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.0)
    reported: list[Any] = []

    def ask(path: str = progress.PATH) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return json.loads(body) if answer.status == 200 else answer.status

    def fetch(into: Path, desired: list[files.File]) -> None:
        reported.append(ask())
        (into / ".cache").mkdir()
        (into / ".cache" / "a.incomplete").write_bytes(b"1" * 30)
        reported.append(ask())
        (into / ".cache" / "a.incomplete").rename(into / "a")
        (into / "a").write_bytes(b"1" * 100)
        reported.append(ask())
        assert ask("/") == 404

    def listed(source: str, revision: str | None) -> files.Source:
        reported.append(ask())
        return files.Source([files.File("a", 100)], None, fetch)

    monkeypatch.setattr(gather, "listed", listed)
    gather.fill(order(claim, "s3://bucket", port=port))
    assert reported == [
        {"directory": "weights", "copied": 0, "bytes": None},
        {"directory": "weights", "copied": 0, "bytes": 100},
        {"directory": "weights", "copied": 30, "bytes": 100},
        {"directory": "weights", "copied": 100, "bytes": 100},
    ]
    with pytest.raises(ConnectionRefusedError):
        ask()


def test_copy_succeeds_if_progress_port_is_in_use(monkeypatch: pytest.MonkeyPatch, claim: Path) -> None:
    Bucket(monkeypatch, a=b"1")
    with socket.create_server(("", 0)) as taken:
        assert gather.fill(order(claim, "s3://bucket", port=taken.getsockname()[1]))["bytes"] == 1


def test_directory_without_completion_marker_is_copied_again(
    monkeypatch: pytest.MonkeyPatch, claim: Path
) -> None:
    Bucket(monkeypatch, a=b"1")
    (claim / "weights").mkdir()
    (claim / "weights" / "a").write_bytes(b"wrong")
    gather.fill(order(claim, "s3://bucket"))
    assert (claim / "weights" / "a").read_bytes() == b"1"


def test_incomplete_file_is_an_error(monkeypatch: pytest.MonkeyPatch, claim: Path) -> None:
    bucket = Bucket(monkeypatch, a=b"1")
    monkeypatch.setattr(bucket, "fetch", lambda into, desired: (into / "a").write_bytes(b""))
    with pytest.raises(OSError, match="1 files did not come whole, such as a"):
        gather.fill(order(claim, "s3://bucket"))


def test_previous_weights_are_kept_and_older_weights_are_removed(
    monkeypatch: pytest.MonkeyPatch, claim: Path
) -> None:
    Bucket(monkeypatch, a=b"1")

    def ask(directory: str) -> set[str]:
        gather.fill(order(claim, "s3://bucket", directory=directory))
        time.sleep(0.02)  # Markers need different times, for their order.
        return {path.name for path in claim.iterdir() if not path.name.startswith(".")}

    assert ask("one") == {"one"}
    assert ask("two") == {"one", "two"}
    assert ask("one") == {"one", "two"}, "back again: one is in use now"
    assert ask("three") == {"one", "three"}


def test_shared_pvc_keeps_all_weights(monkeypatch: pytest.MonkeyPatch, claim: Path) -> None:
    Bucket(monkeypatch, a=b"1")
    for directory in ("one", "two", "three"):
        gather.fill(order(claim, "s3://bucket", directory=directory, sole=False))
    assert {"one", "two", "three"} <= {path.name for path in claim.iterdir()}


def test_source_without_files_is_an_error(monkeypatch: pytest.MonkeyPatch, claim: Path) -> None:
    Bucket(monkeypatch)
    with pytest.raises(files.Stuck, match="there are no files below s3://bucket"):
        gather.fill(order(claim, "s3://bucket"))


def test_too_small_pvc_is_reported_before_any_copy(monkeypatch: pytest.MonkeyPatch, claim: Path) -> None:
    bucket = Bucket(monkeypatch, a=b"1")
    enormous = files.File("a", shutil.disk_usage(claim).free + 2**30)
    monkeypatch.setattr(bucket, "source", lambda: files.Source([enormous], None, bucket.fetch))
    with pytest.raises(files.Stuck, match="more are needed in the PVC"):
        gather.fill(order(claim, "s3://bucket"))
    assert bucket.fetched == []


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 2, "the PVC is full"),
        (OSError(errno.EACCES, "Permission denied"), 2, "the PVC cannot be written by user"),
        (OSError(errno.ECONNRESET, "reset"), 1, "reset"),
        (RuntimeError("x" * 10_000), 1, "RuntimeError"),
    ],
)
def test_error_is_reported_with_exit_status_and_short_message(
    monkeypatch: pytest.MonkeyPatch, claim: Path, tmp_path: Path, error: Exception, status: int, message: str
) -> None:
    def broken(source: str, revision: str | None) -> files.Source:
        raise error

    monkeypatch.setattr(gather, "listed", broken)
    monkeypatch.setenv("DAYBREAK_FILL", json.dumps(order(claim, "s3://bucket")))
    monkeypatch.setenv("TERMINATION_LOG", str(tmp_path / "log"))
    assert main() == status
    reported = (tmp_path / "log").read_text()
    assert message in reported
    assert len(reported) < 4096


@pytest.mark.parametrize("path", ["../up", "a/../../up", "/etc/passwd"])
def test_a_file_cannot_leave_its_directory(claim: Path, path: str) -> None:
    with pytest.raises(files.Stuck):
        files.place_of(claim / "weights", files.File(path, 1))


def test_job_waits_while_same_weights_are_locked(hub: Hub, claim: Path) -> None:
    reported = order(claim, "hf://owner/model", sole=False)
    with gather.alone(claim / f"{gather.LOCK}weights"):
        environment = {
            "DAYBREAK_FILL": json.dumps(reported),
            "HF_ENDPOINT": hub.url,
            "HOME": str(hub.folder),
            "NO_PROXY": "*",
            "PATH": os.environ["PATH"],
            "TERMINATION_LOG": str(hub.folder / "log"),
        }
        waiting = subprocess.Popen([sys.executable, "-c", program("fill")], env=environment)  # noqa: S603
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(2)
        assert hub.fetched == []
    assert waiting.wait(60) == 0
    assert names(claim / "weights") == WHOLE
