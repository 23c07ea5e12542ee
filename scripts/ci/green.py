"""Record the newest commit with a successful run, for programs that keep main at such a commit."""

import subprocess
from pathlib import Path

LAST_GREEN = "last-green-ci"
"""File in git's common directory, which all worktrees of a clone share."""


def committed(repository: Path) -> str:
    """Return the commit that is checked out, or an empty text if files differ from it."""
    return "" if _git(repository, "status", "--porcelain") else _git(repository, "rev-parse", "HEAD")


def record(repository: Path, commit: str) -> bool:
    """Write the commit unless it is empty or no longer checked out; return True if written.

    Args:
        repository: Working tree that the run tested.
        commit: Return value of `committed` before the run.
    """
    if not commit or commit != committed(repository):
        return False
    common = _git(repository, "rev-parse", "--path-format=absolute", "--git-common-dir")
    (Path(common) / LAST_GREEN).write_text(f"{commit}\n")
    return True


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603
