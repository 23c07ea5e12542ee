"""Configuration digests of built objects, read back: changes that count as another configuration."""

from typing import Any

import pytest

from daybreak.kinds.llmservice.decide.fingerprint import Fingerprint
from daybreak.ray.views.ray_service_view import ray_view
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    GPU_MODEL,
    Manifest,
    manifest,
    ray_service,
    ray_status,
)

BASE = manifest(GPU_MODEL)


def configuration(llm: Manifest) -> str:
    return ray_view(ray_service(llm)).configuration


@pytest.mark.parametrize(
    "llm",
    [
        manifest(GPU_MODEL, replicas=3),
        manifest(
            {**GPU_MODEL, "replicas": {"min": 0, "max": 4, "targetOngoingRequests": 3, "upscaleDelay": "1s"}}
        ),
        manifest({**GPU_MODEL, "serve": {"maxOngoingRequests": 7, "healthCheckPeriod": "3s"}}),
    ],
)
def test_configuration_is_unchanged_by_in_place_serve_changes(llm: Manifest) -> None:
    changed, base = ray_service(llm)["spec"]["serveConfigV2"], ray_service(BASE)["spec"]["serveConfigV2"]
    assert changed != base
    assert configuration(llm) == configuration(BASE)


@pytest.mark.parametrize(
    "model",
    [
        {**GPU_MODEL, "engine": {"args": {"max_model_len": 8192}}},
        {**GPU_MODEL, "revision": "main"},
        {**GPU_MODEL, "source": "hf://Qwen/Qwen2.5-3B-Instruct"},
        {**GPU_MODEL, "parallelism": {"tensor": 2}},
    ],
)
def test_configuration_changes_if_replicas_restart(model: Manifest) -> None:
    assert configuration(manifest(model)) != configuration(BASE)


def test_configuration_changes_if_a_model_is_added() -> None:
    assert configuration(manifest(CPU_MODEL)) != configuration(
        manifest(CPU_MODEL, {**CPU_MODEL, "name": "b"})
    )


def test_argument_text_cannot_hide_a_configuration_change() -> None:
    sly = {"args": {"chat_template": "a\n  deployments:\nb"}}
    one, other = ({**GPU_MODEL, "engine": sly, "revision": revision} for revision in ("a", "b"))
    assert configuration(manifest(one)) != configuration(manifest(other))


def test_fingerprint_is_parsed_back_and_invalid_text_is_none() -> None:
    view = ray_view(ray_service(BASE, generation=7, status=ray_status(active="chat-aaaaa", generation=7)))
    present = Fingerprint.now(view)
    assert Fingerprint.parse(str(present)) == present
    assert present.same(Fingerprint("chat-aaaaa", present.configuration, 3))
    for odd in ("", "a/b", "a/b/c", "a/b/-1", "a/b/1/2"):
        assert Fingerprint.parse(odd) is None


@pytest.mark.parametrize("odd", [None, {}, {"status": 3}, {"metadata": []}, {"status": {"conditions": {}}}])
def test_malformed_ray_service_reads_as_empty(odd: Any) -> None:
    view = ray_view(odd)
    assert (view.active, view.pending, view.ready, view.application) == ("", "", False, None)
