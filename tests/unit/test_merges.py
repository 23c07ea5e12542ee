"""Files that no tool parses, such as the changelog: they have no markers of an unresolved merge."""

import re
import subprocess

from cluster import paths

_MARKER = re.compile(rb"^(<{7}|>{7}) ", re.MULTILINE)


def test_no_file_has_merge_conflict_markers() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"],  # noqa: S607 -- git of this machine
        cwd=paths.REPOSITORY,
        capture_output=True,
        check=True,
    ).stdout
    files = [paths.REPOSITORY / name.decode() for name in listed.split(b"\0") if name]
    assert CHANGELOG in files
    assert [str(file) for file in files if file.is_file() and _MARKER.search(file.read_bytes())] == []


CHANGELOG = paths.REPOSITORY / "CHANGELOG.md"
