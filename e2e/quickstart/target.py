"""The cluster that `make up` works on: the embedded one, or the one that KUBECONFIG names."""

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
"""Where Daybreak is installed."""


@dataclass(frozen=True)
class Target:
    """A cluster and the tools to reach it."""

    kubeconfig: Path
    embedded: bool

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the tools: this cluster and no other."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl and return what it prints.

        Raises ClusterError with the tool's own last line when it fails.
        """
        return self._run("kubectl", *arguments, stdin=stdin)

    def helm(self, *arguments: str) -> str:
        """Run helm and return what it prints. Raises ClusterError as `kubectl` does."""
        return self._run("helm", *arguments)

    def get(self, *arguments: str) -> dict[str, Any] | None:
        """One object, or None when it does not exist."""
        text = self.kubectl("get", *arguments, "--ignore-not-found", "-o", "json")
        return json.loads(text) if text.strip() else None

    def has_api(self, group: str) -> bool:
        """Whether the API server serves the API group."""
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
    """Path of kubectl or helm: the one built here, or else the user's own.

    Raises ClusterError when there is none.
    """
    built = paths.BIN / name
    found = str(built) if built.exists() else shutil.which(name)
    if found is None:
        raise ClusterError(
            f"{name} is missing: install it, or run `make up` without KUBECONFIG, which builds it"
        )
    return found


def chosen() -> Target:
    """The user's cluster when KUBECONFIG is set (to another file than ours), else the embedded one.

    Raises ClusterError when KUBECONFIG names no file.
    """
    own = os.environ.get("KUBECONFIG", "")
    if not own or Path(own).resolve() == paths.KUBECONFIG.resolve():
        return Target(paths.KUBECONFIG, embedded=True)
    path = Path(own)
    if not path.is_file():
        raise ClusterError(f"KUBECONFIG names {own}, which is no file: unset it for a cluster of our own")
    return Target(path, embedded=False)
