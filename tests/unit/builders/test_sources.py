"""Where weights come from."""

from typing import Any

import pytest

from daybreak.builders.sources import environment, weights
from tests.unit.builders.services import model, service


def of(**fields: Any) -> Any:
    """Weights of a model with these fields."""
    return weights(service(model(**fields)).spec.models[0], "IfNotPresent")


def test_hugging_face_pins_the_revision() -> None:
    found = of(source="hf://owner/name", revision="0123abc")
    assert found.model_source == "owner/name"
    assert found.engine_args == {"revision": "0123abc"}
    assert found.volume is None


def test_hugging_face_without_a_revision() -> None:
    assert of(source="hf://owner/name").engine_args == {}


@pytest.mark.parametrize("source", ["s3://bucket/a/b", "gs://bucket/a/b"])
def test_a_bucket_is_copied_from(source: str) -> None:
    assert of(source=source).model_source == {"bucket_uri": source}


def test_a_path_in_the_image() -> None:
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


def test_an_image_is_mounted_read_only() -> None:
    found = of(source="image://registry.example.com/weights:1#a/b")
    assert found.model_source == "/models/m/a/b"
    assert found.volume == {
        "name": "daybreak-model",
        "image": {"reference": "registry.example.com/weights:1", "pullPolicy": "IfNotPresent"},
    }
    assert found.mount is not None


def test_a_directory_name_is_made_of_any_model_name() -> None:
    assert of(name="Owner/Model.7B", source="pvc://claim").model_source.startswith("/models/owner-model-7b-")


def test_a_token_stays_a_reference() -> None:
    svc = service(model(token={"secretKeyRef": {"name": "hub", "key": "token"}}))
    assert environment(svc.spec.models[0]) == [
        {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    ]
