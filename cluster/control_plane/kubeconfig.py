"""Kubeconfig files: API server, user and certificate."""

import base64
import os
from pathlib import Path

import yaml

from cluster.control_plane.certs import Pair


def write(file: Path, server: str, authority: Path, user: str, pair: Pair) -> None:
    """Write a self-contained kubeconfig that only its owner can read.

    Args:
        file: File to write.
        server: Address of the API server, https://….
        authority: Certificate of the authority that signed the API server's.
        user: Name in the file only; the certificate identifies the user.
        pair: Certificate and key of the client.
    """
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "daybreak",
                "cluster": {"server": server, "certificate-authority-data": _encoded(authority)},
            }
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _encoded(pair.certificate),
                    "client-key-data": _encoded(pair.key),
                },
            }
        ],
        "contexts": [{"name": "daybreak", "context": {"cluster": "daybreak", "user": user}}],
        "current-context": "daybreak",
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.partial")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
        yaml.safe_dump(content, handle, sort_keys=False)
    partial.replace(file)


def _encoded(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
