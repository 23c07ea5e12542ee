"""Versions of the engines that stories run: the documentation names those of the lock files."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TABLE = (ROOT / "docs" / "model-server.md").read_text()


@pytest.mark.parametrize(
    ("engine", "package", "words"),
    [("llama", "xllamacpp", "xllamacpp"), ("mlflow", "mlflow", "MLflow"), ("kserve", "kserve", "KServe")],
)
def test_documented_engine_version_is_the_locked_version(engine: str, package: str, words: str) -> None:
    lock = ROOT / "cluster" / "images" / "engines" / engine / "requirements.txt"
    found = re.search(rf"^{package}==(\S+)", lock.read_text(), re.MULTILINE)
    assert found is not None
    assert f"{words} {found[1]}" in TABLE
