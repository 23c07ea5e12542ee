"""Atomic writes of configuration files."""

import hashlib
from pathlib import Path


def write(file: Path, content: str) -> dict[str, str]:
    """Write a configuration file atomically, unless it already has that content.

    Some programs watch their files: kube-proxy ends if its file is written to, and containerd would read half
    a file.

    Returns:
        A variable for the environment of the process that reads the file, so that the process is restarted
        if the content changed.
    """
    if not file.exists() or file.read_text() != content:
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_name(f".{file.name}.partial")
        partial.write_text(content)
        partial.replace(file)
    return {"DAYBREAK_CONFIG": hashlib.sha256(content.encode()).hexdigest()[:12]}
