"""Green commits: a commit is recorded only if exactly its content was tested."""

import subprocess
from pathlib import Path

import pytest

from scripts.ci import green


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)  # noqa: S603, S607


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a repository with one commit."""
    folder = tmp_path / "clone"
    folder.mkdir()
    git(folder, "init", "--initial-branch=main")
    (folder / "file").write_text("one")
    git(folder, "add", "file")
    git(folder, "commit", "--message=one")
    return folder


def test_commit_of_a_clean_tree_is_recorded(clone: Path) -> None:
    commit = green.committed(clone)
    assert green.record(clone, commit)
    assert (clone / ".git" / green.LAST_GREEN).read_text() == f"{commit}\n"


def test_commit_of_worktree_is_recorded_in_shared_git_directory(clone: Path, tmp_path: Path) -> None:
    git(clone, "worktree", "add", "--detach", str(tmp_path / "second"))
    commit = green.committed(tmp_path / "second")
    assert green.record(tmp_path / "second", commit)
    assert (clone / ".git" / green.LAST_GREEN).read_text() == f"{commit}\n"


def test_changed_tree_is_not_recorded(clone: Path) -> None:
    (clone / "file").write_text("two")
    assert green.committed(clone) == ""
    assert not green.record(clone, green.committed(clone))
    assert not (clone / ".git" / green.LAST_GREEN).exists()


def test_commit_made_during_the_run_is_not_recorded(clone: Path) -> None:
    before = green.committed(clone)
    (clone / "file").write_text("two")
    git(clone, "commit", "--all", "--message=two")
    assert not green.record(clone, before)
    assert not (clone / ".git" / green.LAST_GREEN).exists()
