"""Location of a model's weights."""

import re
from typing import Any

import pytest

from daybreak.ray.inputs.weights import environment, weights
from tests.unit.ray.services import model, service


def of(**fields: Any) -> Any:
    """Return the weights of a model with these fields."""
    return weights("llama", service(model(**fields)).spec.models[0], "IfNotPresent")


def test_hugging_face_source_passes_revision_to_engine() -> None:
    found = of(source="hf://owner/name", revision="0123abc")
    assert found.model_source == "owner/name"
    assert found.engine_args == {"revision": "0123abc"}
    assert found.volume is None


def test_hugging_face_source_without_revision_adds_no_engine_args() -> None:
    assert of(source="hf://owner/name").engine_args == {}


@pytest.mark.parametrize("source", ["s3://bucket/a/b", "gs://bucket/a/b"])
def test_a_bucket_is_copied_to_a_directory_of_its_own(source: str) -> None:
    found = of(source=source)
    directory = found.model_source
    assert directory.startswith(f"/var/cache/daybreak/buckets/{source[:2]}-bucket-a-b-")
    assert found.callback["callback_class"].endswith(".CloudDownloader")
    assert found.callback["callback_kwargs"] == {"paths": [[source, directory]]}


def test_different_bucket_addresses_get_different_directories() -> None:
    addresses = [
        "s3://b/a-b",
        "s3://b/a/b",
        "s3://b/a--b",
        "gs://b/a/b",
        "s3://b/../a",
        f"s3://b/{'a' * 900}",
    ]
    directories = {of(source=address).model_source for address in addresses}
    assert len(directories) == len(addresses)
    for directory in directories:
        name = directory.removeprefix("/var/cache/daybreak/buckets/")
        assert re.fullmatch("[A-Za-z0-9._-]{1,255}", name)
        assert not name.startswith(".")


@pytest.mark.parametrize("load_format", ["runai_streamer", "runai_streamer_sharded", "tensorizer"])
def test_a_bucket_that_the_engine_reads_itself_is_not_copied(load_format: str) -> None:
    found = of(source="s3://bucket/a", engine={"args": {"load_format": load_format}})
    assert found.model_source == {"bucket_uri": "s3://bucket/a"}
    assert found.callback is None


def test_file_source_is_used_as_path_in_the_image() -> None:
    assert of(source="file:///opt/weights/").model_source == "/opt/weights"


@pytest.mark.parametrize(
    ("source", "path"), [("pvc://claim/a/b/", "/models/m/a/b"), ("pvc://claim", "/models/m")]
)
def test_a_claim_is_mounted_read_only(source: str, path: str) -> None:
    found = of(source=source)
    assert found.model_source == path
    assert found.volume == {
        "name": "daybreak-model",
        "persistentVolumeClaim": {"claimName": "claim", "readOnly": True},
    }
    assert found.mount == {"name": "daybreak-model", "mountPath": "/models/m", "readOnly": True}


def test_image_source_is_mounted_read_only_as_image_volume() -> None:
    found = of(source="image://registry.example.com/weights:1#a/b")
    assert found.model_source == "/models/m/a/b"
    assert found.volume == {
        "name": "daybreak-model",
        "image": {"reference": "registry.example.com/weights:1", "pullPolicy": "IfNotPresent"},
    }
    assert found.mount == {"name": "daybreak-model", "mountPath": "/models/m", "readOnly": True}


def test_mount_directory_name_is_derived_from_model_name() -> None:
    assert of(name="Owner/Model.7B", source="pvc://claim").model_source.startswith("/models/owner-model-7b-")


def test_token_is_passed_as_secret_reference() -> None:
    svc = service(model(token={"secretKeyRef": {"name": "hub", "key": "token"}}))
    assert environment(svc.spec.models[0]) == [
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    ]
