"""Names and tags of the images of the embedded cluster."""

from dataclasses import replace
from pathlib import Path

import pytest

from cluster import paths
from cluster.images import buildah, catalog


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "REPOSITORY", tmp_path)
    (tmp_path / "source" / "__pycache__").mkdir(parents=True)
    (tmp_path / "source" / "a.py").write_text("a = 1\n")
    return tmp_path


def recipe(repository: Path) -> catalog.Recipe:
    return catalog.Recipe("FROM scratch\n", (repository / "source",), False, lambda folder: folder)


def tag(made: catalog.Recipe, base: str = "") -> str:
    return catalog._fingerprint(made, base)


def test_tag_changes_with_each_build_input(repository: Path) -> None:
    made = recipe(repository)
    before = tag(made)
    assert before == tag(recipe(repository))
    assert len({before, tag(made, "base:1"), tag(made, "base:2")}) == 3
    assert tag(replace(made, dockerfile="FROM scratch\nUSER 1\n")) != before
    assert tag(replace(made, parameters=("seed 1",))) != before
    (repository / "source" / "a.py").write_text("a = 2\n")
    assert tag(made) != before


def test_a_renamed_file_changes_the_tag_and_bytecode_does_not(repository: Path) -> None:
    made = recipe(repository)
    before = tag(made)
    (repository / "source" / "__pycache__" / "a.pyc").write_text("x")
    assert tag(made) == before
    (repository / "source" / "a.py").rename(repository / "source" / "b.py")
    assert tag(made) != before


def test_images_built_on_base_change_when_base_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = catalog.references()
    recipes = dict(catalog.recipes())
    recipes["base"] = replace(recipes["base"], parameters=("another suite",))
    monkeypatch.setattr(catalog, "recipes", lambda: recipes)
    after = catalog.references()
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"base", "operator", "gateway", "ray", "ray-cpu", "engines"}


def test_image_reference_contains_project_name_and_short_tag() -> None:
    for name, reference in catalog.references().items():
        assert reference.startswith(f"daybreak.local/{name}:")
        assert len(reference.rpartition(":")[2]) == 12
    assert buildah.layout("daybreak.local/ray-cpu:0123").name == "ray-cpu-0123"


def test_the_same_dockerfile_serves_users_and_the_embedded_cluster() -> None:
    text = (Path(__file__).parents[3] / "images" / "ray-cpu" / "Dockerfile").read_text()
    assert catalog.recipes()["ray-cpu"].dockerfile == f"{text}\nCOPY models /models\n"
