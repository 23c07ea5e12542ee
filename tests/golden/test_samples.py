"""What each sample becomes, whole and as text, so that a review sees every change of what is applied.

After a wanted change: `pytest tests/golden --snapshot-update`, and read the difference.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from daybreak.api.llmservice import KIND, LLMService
from daybreak.builders.desired import desired
from daybreak.builders.platform import Platform

SAMPLES = Path(__file__).parents[2] / "manifests" / "samples"
EVERYTHING = Path(__file__).with_name("everything.yaml")
"""A service that sets every field; no sample for users."""
PLATFORM = Platform(ray_image="daybreak-ray:1", ray_cpu_image="daybreak-ray-cpu:1")


class Manifests(SingleFileSnapshotExtension):
    """One YAML file for each service."""

    file_extension = "yaml"
    _write_mode = WriteMode.TEXT


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as such, so that Serve's configuration can be read."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def as_text(objects: list[dict[str, Any]]) -> str:
    """The objects in one YAML file."""
    return yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def services() -> list[Any]:
    """Every LLMService of the samples, and the one that sets everything."""
    found = []
    for path in [EVERYTHING, *sorted(SAMPLES.glob("*.yaml"))]:
        for manifest in yaml.safe_load_all(path.read_text()):
            if manifest.get("kind") == KIND:
                found.append(pytest.param(manifest, id=f"{path.stem}-{manifest['metadata']['name']}"))
    return found


@pytest.mark.parametrize("manifest", services())
def test_sample(manifest: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    metadata = {"namespace": "default", "uid": "0-0", **manifest["metadata"]}
    svc = LLMService.from_manifest({**manifest, "metadata": metadata})
    assert as_text(desired(svc, PLATFORM, f"{svc.name}-abcde")) == snapshot(extension_class=Manifests)


def test_there_are_samples() -> None:
    assert len(services()) > 1
