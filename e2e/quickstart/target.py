"""Cluster that `make up` works on: the embedded one, or the one in KUBECONFIG."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster import paths
from cluster.errors import ClusterError

NAMESPACE = "daybreak-system"
"""Namespace of Daybreak."""


@dataclass(frozen=True)
class Target:
    """Cluster and the tools to reach it."""

    kubeconfig: Path
    embedded: bool

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the tools, restricted to this cluster."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return its output.

        Raises ClusterError with the tool's own last line if it fails.
        """
        return self._run("kubectl", *arguments, stdin=stdin)

    def helm(self, *arguments: str) -> str:
        """Run helm and return its output. Raises ClusterError like `kubectl`."""
        return self._run("helm", *arguments)

    def get(self, *arguments: str) -> dict[str, Any] | None:
        """Return one object, or None if it does not exist."""
        text = self.kubectl("get", *arguments, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text.strip() else None

    def has_api(self, group: str) -> bool:
        """Return True if the API server serves the API group."""
        return f"{group}/" in self.kubectl("api-versions")

    def _run(self, tool: str, *arguments: str, stdin: str | None = None) -> str:
        done = subprocess.run(  # noqa: S603 - a fixed tool, arguments from this package
            [program(tool), *arguments],
            env=self.environment,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise ClusterError(f"{tool} {' '.join(arguments[:3])} failed: {lines[-1]}")
        return done.stdout


def program(name: str) -> str:
    """Return the path of kubectl or helm: the one built here, otherwise the user's own.

    Raises ClusterError if there is none.
    """
    built = paths.BIN / name
    found = str(built) if built.exists() else shutil.which(name)
    if found is None:
        raise ClusterError(
            f"{name} is missing: install it, or run `make up` without KUBECONFIG, which builds it"
        )
    return found


def chosen() -> Target:
    """Return the user's cluster if KUBECONFIG names another file than the embedded one, or the embedded one.

    Raises ClusterError if KUBECONFIG does not name a file.
    """
    own = os.environ.get("KUBECONFIG", "")
    if not own or Path(own).resolve() == paths.KUBECONFIG.resolve():
        return Target(paths.KUBECONFIG, embedded=True)
    path = Path(own)
    if not path.is_file():
        raise ClusterError(f"KUBECONFIG names {own}, which is no file: unset it for the embedded cluster")
    return Target(path, embedded=False)
