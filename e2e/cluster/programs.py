"""Runs other programs to their end and turns a failure into one line."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.errors import ClusterError


def run(
    command: Sequence[str | Path],
    *,
    stdin: str | bytes | None = None,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float = 3600.0,
) -> str:
    """Run a program and return what it printed.

    Args:
        command: Program and arguments.
        stdin: What it reads on its standard input.
        directory: Folder to run in.
        environment: Variables to set beside the present ones.
        timeout: Seconds after which it is ended.

    Raises:
        ClusterError: It is missing, failed or took too long; with its last line on stderr.
    """
    words = [str(word) for word in command]
    shown = " ".join([Path(words[0]).name, *words[1:]])[:200]
    try:
        done = subprocess.run(  # noqa: S603 -- the commands are this package's own, without a shell
            words,
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            cwd=directory,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError:
        raise ClusterError(f"{words[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"`{shown}` was not done after {timeout:.0f} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise ClusterError(f"`{shown}` failed: {lines[-1] if lines else f'exit status {done.returncode}'}")
    return done.stdout.decode(errors="replace")
