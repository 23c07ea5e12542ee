"""Ray's ingress with names that have a colon: a name is a model's before it is an adapter's."""

import asyncio
import importlib
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import daybreak_runtime


class RayIngress:
    """Ray Serve LLM's ingress, as far as names of models go."""

    def __init__(self, *models: str) -> None:
        self._model_cards = dict.fromkeys(models)
        self._default_serve_handles = {model: Handle(model) for model in models}
        self._configured_serve_handles: dict[str, Any] = {}

    async def _get_model_id(self, model: str | None) -> str | None:
        if model is None:
            return next(iter(self._model_cards))
        if model.split(":")[0] not in self._model_cards:
            raise LookupError(model)
        return model

    def _get_configured_serve_handle(self, model_id: str) -> Any:
        if model_id not in self._configured_serve_handles:
            base = model_id.split(":")[0]
            if base not in self._default_serve_handles:
                raise LookupError(model_id)
            options: dict[str, Any] = {} if base == model_id else {"multiplexed_model_id": model_id}
            handle = self._default_serve_handles[base].options(stream=True, **options)
            self._configured_serve_handles[model_id] = handle
        return self._configured_serve_handles[model_id]


class Handle:
    """A handle of a deployment."""

    def __init__(self, model: str, **options: Any) -> None:
        self.model = model
        self.configured = options

    def options(self, **options: Any) -> "Handle":
        """Return one with options."""
        return Handle(self.model, **options)


@pytest.fixture
def ingress_class(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the class, with a stub in place of Ray's."""
    (runtime,) = daybreak_runtime.__path__
    package = types.ModuleType("daybreak_runtime.llm")
    package.__path__ = [str(Path(runtime) / "llm")]
    ray = types.ModuleType("ray.llm._internal.serve.core.ingress.ingress")
    vars(ray)["OpenAiIngress"] = RayIngress
    monkeypatch.setitem(sys.modules, "daybreak_runtime.llm", package)
    monkeypatch.setitem(sys.modules, ray.__name__, ray)
    monkeypatch.delitem(sys.modules, "daybreak_runtime.llm.ingress", raising=False)
    return importlib.import_module("daybreak_runtime.llm.ingress").OpenAiIngress


def handle(ingress: Any, name: str) -> Any:
    """Return the handle that a request with a name is sent to."""
    return ingress._get_configured_serve_handle(asyncio.run(ingress._get_model_id(name)))


def test_name_with_a_colon_is_found(ingress_class: Any) -> None:
    ingress = ingress_class("coder:7b", "coder:14b", "plain")
    assert handle(ingress, "coder:7b").model == "coder:7b"
    assert handle(ingress, "coder:14b").configured == {"stream": True}
    assert handle(ingress, "plain").model == "plain"
    assert handle(ingress, "coder:7b") is handle(ingress, "coder:7b")


def test_adapters_and_unknown_names_are_left_to_ray(ingress_class: Any) -> None:
    ingress = ingress_class("coder:7b", "plain")
    assert handle(ingress, "plain:adapter").configured["multiplexed_model_id"] == "plain:adapter"
    assert asyncio.run(ingress._get_model_id(None)) == "coder:7b"
    for name in ("coder", "coder:8b", "other"):
        with pytest.raises(LookupError):
            handle(ingress, name)


def test_class_keeps_the_name_of_the_deployment(ingress_class: Any) -> None:
    assert ingress_class.__name__ == "OpenAiIngress"
