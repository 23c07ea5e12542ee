"""The CRD as a document that the API server can read. tests/api tests it with a real API server."""

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from daybreak.api.llmservice import crd, definition
from daybreak.api.schema.scalars import VALIDATIONS
from daybreak.api.schema.structural import structural
from tests.broken_specs import BY_RULE

Schema = dict[str, Any]


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield every node of the schema with its path."""
    yield path, schema
    for name, field in schema.get("properties", {}).items():
        yield from nodes(field, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from nodes(schema["additionalProperties"], f"{path}.*")


SPEC = dict(nodes(crd.CRD.schema()["properties"]["spec"], "spec"))
STATUS = dict(nodes(crd.CRD.schema()["properties"]["status"], "status"))


def test_crd_has_expected_names_and_version() -> None:
    document = crd.CRD.manifest()
    assert document["metadata"]["name"] == "llmservices.daybreak.dev"
    assert document["spec"]["names"]["shortNames"] == ["llm"]
    assert document["spec"]["names"]["categories"] == ["daybreak"]
    (version,) = document["spec"]["versions"]
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)


@pytest.mark.parametrize(("path", "node"), [*SPEC.items(), *STATUS.items()], ids=[*SPEC, *STATUS])
def test_every_node_is_structural_and_described(path: str, node: Schema) -> None:
    assert not {"$ref", "anyOf", "allOf", "oneOf", "title", "$defs", "const"} & set(node)
    free = node.get("x-kubernetes-preserve-unknown-fields") or node.get("x-kubernetes-int-or-string")
    assert free or node["type"] in {"object", "array", "string", "integer", "number", "boolean"}
    if not path.endswith(("*", "[]")):
        assert node["description"].endswith((".", ")"))
        assert "\n" not in node["description"]


@pytest.mark.parametrize(("path", "node"), SPEC.items(), ids=SPEC)
def test_every_list_string_and_map_of_spec_has_size_limit(path: str, node: Schema) -> None:
    if node.get("type") == "array":
        assert node["maxItems"] <= 64
    if node.get("type") == "string":
        assert "maxLength" in node or "enum" in node
    if "additionalProperties" in node:
        assert node["maxProperties"] <= 128


def test_status_has_no_defaults() -> None:
    assert not [path for path, node in STATUS.items() if "default" in node]


def test_omitted_model_parts_have_empty_default() -> None:
    model = crd.CRD.schema()["properties"]["spec"]["properties"]["models"]["items"]["properties"]
    for part in ("parallelism", "replicas", "serve", "accelerator", "engine"):
        assert model[part]["default"] == {}
    assert model["parallelism"]["properties"]["tensor"]["default"] == 1
    assert "default" not in model["accelerator"]["properties"]["resource"]


def test_crd_rules_equal_rules_of_broken_specs() -> None:
    whole = dict(nodes(crd.CRD.schema()))
    messages = {rule["message"] for node in whole.values() for rule in node.get(VALIDATIONS, [])}
    assert {broken.rule for broken in BY_RULE} == messages


def test_engine_arguments_preserve_unknown_fields() -> None:
    args = SPEC["spec.models[].engine.args"]
    assert args["additionalProperties"] == {"x-kubernetes-preserve-unknown-fields": True, "nullable": True}


def test_volume_preserves_unknown_fields() -> None:
    assert SPEC["spec.runtime.volumes[]"]["x-kubernetes-preserve-unknown-fields"] is True


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("spec.models", "name"),
        ("spec.runtime.env", "name"),
        ("spec.runtime.volumes", "name"),
        ("spec.runtime.volumeMounts", "mountPath"),
    ],
)
def test_list_with_two_managers_is_map_with_expected_key(path: str, key: str) -> None:
    assert SPEC[path]["x-kubernetes-list-type"] == "map"
    assert SPEC[path]["x-kubernetes-list-map-keys"] == [key]


def test_status_columns_refer_to_existing_fields() -> None:
    for column in crd.CRD.columns:
        if column["jsonPath"].startswith(".status.conditions"):
            field = column["jsonPath"].rpartition(".")[2]
            assert f"status.conditions[].{field}" in STATUS
        elif column["jsonPath"].startswith(".status"):
            path = column["jsonPath"].removeprefix(".").replace("[*]", "[]")
            assert STATUS[path]["type"] == column["type"]


def test_scale_paths_exist() -> None:
    scale = crd.CRD.manifest()["spec"]["versions"][0]["subresources"]["scale"]
    assert SPEC[scale["specReplicasPath"].removeprefix(".")]["type"] == "integer"
    assert STATUS[scale["statusReplicasPath"].removeprefix(".")]["type"] == "integer"
    assert STATUS[scale["labelSelectorPath"].removeprefix(".")]["type"] == "string"


def test_two_crd_manifests_are_equal_and_independent() -> None:
    first = crd.CRD.manifest()
    first["spec"]["versions"][0]["schema"].clear()
    assert crd.CRD.manifest() == crd.CRD.manifest()
    assert crd.CRD.manifest() != first


@pytest.mark.parametrize("annotation", [int | str, dict[str, "int | str"]])
def test_type_without_structural_schema_is_rejected(annotation: Any) -> None:
    model = type("Two", (BaseModel,), {"__annotations__": {"field": annotation}})
    with pytest.raises(ValueError, match="one type in Kubernetes"):
        structural(model)


def test_ray_service_name_limit_leaves_room_for_suffixes_of_kuberay() -> None:
    # KubeRay adds a suffix to name the RayCluster, and another one to name a Service of that RayCluster.
    longest = "a" * definition.RAY_SERVICE_NAME_LIMIT + "-abcde" + "-serve-svc"
    assert len(longest) == 63, "the limit of Kubernetes for the name of a Service"
