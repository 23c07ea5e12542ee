"""Model names that clients of other servers send: with a tag, or as a path."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from daybreak.api.common import names
from daybreak.api.llmroute.spec import LLMRouteSpec
from daybreak.api.llmservice.validation import problems
from daybreak.api.modelserver.spec import ModelServerSpec
from daybreak.api.schema.custom_object import InvalidSpec
from daybreak.ray.serve.serve_config import INGRESS_CLASS, serve_config
from tests.unit.ray.services import model, service

NAMES = ["qwen2.5-coder:7b", "hf.co/owner/name:Q4_K_M", "/models/Qwen2.5-7B-Instruct", "ft:base:team::id1"]


def of_server(name: str) -> Any:
    """Return a ModelServer's spec with a model of this name."""
    return ModelServerSpec.model_validate({"engine": "vllm", "model": {"name": name, "source": "file:///m"}})


def of_route(name: str) -> Any:
    """Return a route's spec with this name."""
    return LLMRouteSpec.model_validate({"names": [name], "backends": [{"service": "s", "model": "m"}]})


@pytest.mark.parametrize("made", [of_server, of_route])
@pytest.mark.parametrize("name", NAMES)
def test_name_with_tag_or_path_is_accepted_by_server_and_route(made: Callable[[str], Any], name: str) -> None:
    assert made(name)


@pytest.mark.parametrize("name", NAMES)
def test_name_with_tag_or_path_is_accepted_by_service(name: str) -> None:
    svc = service(model(name=name))
    assert problems(svc) == ()
    group = names.worker_group(name)
    assert group == names.worker_group(name).lower()
    assert ":" not in group
    assert "/" not in group


@pytest.mark.parametrize("name", [":7b", "coder:", "//models/a", "/", "a b", "-a", "a/"])
def test_malformed_name_is_rejected(name: str) -> None:
    with pytest.raises(InvalidSpec):
        service(model(name=name))


def test_names_that_differ_only_in_separator_have_different_groups() -> None:
    assert len({names.worker_group(name) for name in ("coder:7b", "coder-7b", "coder.7b")}) == 3


def ingress_class(*chosen: str, **runtime: Any) -> Any:
    """Return the ingress class in the Serve configuration."""
    svc = service(*(model(name=name) for name in chosen), runtime=runtime)
    [application] = yaml.safe_load(serve_config(svc.workload))["applications"]
    return application["args"].get("ingress_cls_config")


def test_ingress_class_is_set_only_for_names_with_colon() -> None:
    """Other services keep their configuration, so that they do not restart."""
    assert ingress_class("a", "org/b") is None
    assert ingress_class("a", "coder:7b") == {"ingress_cls": INGRESS_CLASS}


def test_name_with_colon_without_direct_ingress_is_rejected() -> None:
    svc = service(model(name="coder:7b"), runtime={"directIngress": False})
    [problem] = problems(svc)
    assert problem.startswith("spec.models[0].name: coder:7b has a colon")
    assert "LLMRoute" in problem
