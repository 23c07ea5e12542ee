"""A machine without a network: one line names the missing item, regardless of the program that needs it."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster import build, paths
from cluster.errors import ClusterError
from cluster.images import buildah, debian
from cluster.machine import requirements
from cluster.tools import download
from cluster.tools.programs import run
from cluster.tools.report import Report

MAKEFILE = paths.REPOSITORY / "Makefile"
SAID = {
    "go": """\
go: downloading example.com/errors v0.9.1
main.go:2:8: example.com/errors@v0.9.1: Get "https://modules.example/errors.zip": dial tcp: \
lookup modules.example on 10.0.0.53:53: dial udp 10.0.0.53:53: connect: network is unreachable
""",
    "pip": """\
WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError('\
<HTTPSConnection object at 0x7f>: Failed to establish a new connection: [Errno -3] \
Temporary failure in name resolution')': /simple/uv/
ERROR: Could not find a version that satisfies the requirement uv==0.13.8 (from versions: none)
ERROR: No matching distribution found for uv==0.13.8
""",
    "uv": """\
error: Request failed after 3 retries in 10.4s
  cause: Failed to fetch: https://packages.example/simple/kopf/
  cause: Connection refused (os error 111)
Error: building at STEP "RUN uv": exit status 2
""",
    "apt-get": """\
W: Failed to fetch http://debian.example/dists/InRelease  Temporary failure resolving 'debian.example'
E: Unable to locate package buildah
""",
}
TELLING = {
    "go": "network is unreachable",
    "pip": "Temporary failure in name resolution",
    "uv": "Failed to fetch",
    "apt-get": "Temporary failure resolving",
}


def failing(folder: Path, name: str, message: str) -> Path:
    """Return a program that writes a text to stderr and fails."""
    program = folder / name
    program.write_text(f"#!/bin/sh\ncat >&2 <<'EOF'\n{message}EOF\nexit 1\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("name", SAID)
def test_failed_download_is_reported_in_one_line(name: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterError) as caught:
        run([failing(tmp_path, name, SAID[name])], downloads="the weather")
    message = str(caught.value)
    assert message.startswith("the weather cannot be downloaded: ")
    assert TELLING[name] in message
    assert "network" in message
    assert "HTTPS_PROXY" in message
    assert "\n" not in message
    assert len(message) < 300


def test_failure_without_network_error_is_reported_as_program_failure(tmp_path: Path) -> None:
    program = failing(tmp_path, "go", "go: downloading example.com/x v1\nmain.go:3:1: syntax error\n")
    with pytest.raises(ClusterError, match=r"`go` failed: main\.go:3:1: syntax error"):
        run([program], downloads="the weather")


def test_refused_local_connection_is_not_reported_as_failed_download(tmp_path: Path) -> None:
    program = failing(tmp_path, "kubectl", "The connection to 127.0.0.1 failed: connection refused\n")
    with pytest.raises(ClusterError, match=r"^`kubectl` failed: "):
        run([program])


def test_every_downloading_program_reports_missing_item(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, like in (("go", "go"), ("apt-get", "apt-get"), ("mmdebstrap", "apt-get"), ("buildah", "uv")):
        failing(tmp_path, name, SAID[like])
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(requirements, "missing_packages", lambda: ["buildah"])
    monkeypatch.setattr(buildah, "_SCRATCH", tmp_path)
    monkeypatch.setattr(buildah, "_LAYOUTS", tmp_path)
    monkeypatch.setattr(buildah, "_mounts", dict)
    monkeypatch.setattr(buildah, "_build_arguments", dict)
    tries: dict[str, Callable[[], object]] = {
        "Go modules": lambda: build._build(build.PAUSE),
        "Debian packages": lambda: requirements.install_packages(Report()),
        "Debian packages of the images' base": lambda: debian.write(tmp_path / "base.tar"),
        "Python packages of the image here/operator:1": lambda: buildah.build(
            "here/operator:1", "FROM scratch\n", tmp_path, ""
        ),
    }
    for what, attempt in tries.items():
        with pytest.raises(ClusterError, match="cannot be downloaded") as caught:
            attempt()
        assert str(caught.value).startswith(what)


def test_download_command_prints_only_error_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = failing(tmp_path, "pip", SAID["pip"])
    assert download.main(["Python packages", str(program)]) == 1
    written = capsys.readouterr()
    assert written.out == ""
    assert written.err.startswith("make: Python packages cannot be downloaded: ")
    assert written.err.count("\n") == 1


def test_make_reports_failed_download_before_environment_exists(tmp_path: Path) -> None:
    shutil.copy(MAKEFILE, tmp_path)
    (tmp_path / "cluster").symlink_to(paths.REPOSITORY / "cluster")
    (tmp_path / "requirements").mkdir()
    for name in ("bootstrap", "dev"):
        (tmp_path / "requirements" / f"{name}.txt").touch()
    binaries = tmp_path / ".daybreak" / "venv" / "bin"
    binaries.mkdir(parents=True)
    pip = failing(tmp_path, "pip", SAID["pip"])
    python = binaries / "python"
    python.write_text(f'#!/bin/sh\n[ "$2" = pip ] && exec {pip}\nexec python3 "$@"\n')
    python.chmod(0o755)
    done = subprocess.run(
        ["make", ".daybreak/venv/.made"],  # noqa: S607
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        # The environment of a direct call, even if make started the tests.
        env={name: value for name, value in os.environ.items() if not name.startswith("MAKE")},
    )
    assert done.returncode
    message = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert len(message) == 1, done.stderr
    assert message[0].startswith("make: Python packages (requirements/bootstrap.txt) cannot be downloaded: ")
    assert not (tmp_path / ".daybreak" / "venv" / ".made").exists()
