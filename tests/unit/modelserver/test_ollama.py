"""The start command of Ollama, run with a stub of the program, because no image of Ollama is available."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.unit.modelserver.test_objects import container

STAND_IN = """#!/bin/sh
echo "$OLLAMA_HOST $*" >> "$LOG"
case $1 in
serve)
  case $OLLAMA_HOST in 127.*) ;; *) exit 0 ;; esac
  touch "$LOG.up"
  trap 'rm "$LOG.up"; exit 0' TERM
  while :; do sleep 0.05; done
  ;;
list) [ -e "$LOG.up" ] ;;
create) cat "$4" >> "$LOG" ;;
pull) [ -z "$NO_NETWORK" ] ;;
show) [ -n "$ON_VOLUME" ] ;;
esac
"""
"""Stub that logs its commands; `serve` ends at once on the address that gateways use."""
INSIDE = "127.0.0.1:11433"


def started(folder: Path, source: str, **environment: str) -> tuple[int, list[str]]:
    """Run the container's command, and return its exit status and the calls of Ollama with their address."""
    program = folder / "bin" / "ollama"
    program.parent.mkdir()
    program.write_text(STAND_IN)
    program.chmod(0o755)
    found = container(engine="ollama", image="ollama:1", model={"name": "chat", "source": source})
    log = folder / "log"
    env = {"PATH": f"{program.parent}:{os.environ['PATH']}", "LOG": str(log), **environment}
    words = [*found["command"], *found["args"]]
    shell = subprocess.Popen(words, env=env, start_new_session=True)  # noqa: S603 -- the profile's own words
    try:
        status = shell.wait(60)
    finally:
        # The end of the container's first process ends all others.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
    requested = [line for line in log.read_text().splitlines() if not line.endswith(" list")]
    return status, requested


def test_ollama_creates_model_from_file_before_serving(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.touch()
    status, requested = started(tmp_path, f"file://{file}")
    assert (status, requested) == (
        0,
        [
            f"{INSIDE} serve",
            f"{INSIDE} create chat -f {requested[1].rpartition(' ')[2]}",
            f"FROM {file}",
            "0.0.0.0:11434 serve",
        ],
    )


def test_ollama_pulls_repository_and_copies_pull_to_model_name(tmp_path: Path) -> None:
    assert started(tmp_path, "hf://owner/name") == (
        0,
        [
            f"{INSIDE} serve",
            f"{INSIDE} pull hf.co/owner/name",
            f"{INSIDE} cp hf.co/owner/name chat",
            "0.0.0.0:11434 serve",
        ],
    )


@pytest.mark.parametrize("name", ["llama3", "qwen3:0.6b", "jmorgan/llama3:8b"])
def test_ollama_pulls_model_of_library(tmp_path: Path, name: str) -> None:
    assert started(tmp_path, f"ollama://{name}") == (
        0,
        [
            f"{INSIDE} serve",
            f"{INSIDE} pull {name}",
            f"{INSIDE} cp {name} chat",
            "0.0.0.0:11434 serve",
        ],
    )


def test_ollama_does_not_serve_if_pull_fails(tmp_path: Path) -> None:
    status, requested = started(tmp_path, "hf://owner/name", NO_NETWORK="1")
    assert status != 0
    assert requested[-2:] == [f"{INSIDE} pull hf.co/owner/name", f"{INSIDE} show hf.co/owner/name"]


def test_ollama_serves_model_on_volume_if_pull_fails(tmp_path: Path) -> None:
    status, requested = started(tmp_path, "ollama://llama3", NO_NETWORK="1", ON_VOLUME="1")
    assert status == 0
    assert requested[-2:] == [f"{INSIDE} cp llama3 chat", "0.0.0.0:11434 serve"]
