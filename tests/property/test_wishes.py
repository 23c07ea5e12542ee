"""Changes of a spec that need new replicas or pods: derived from the spec alone, and never missed."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daybreak.api.llmservice.definition import LLMService
from daybreak.api.schema.custom_object import InvalidSpec
from daybreak.kinds.llmservice.objects.built_with import BuiltWith, wishes
from daybreak.kinds.llmservice.objects.ray_service import ray_service
from tests.property.services import services
from tests.property.test_builders import PLATFORM
from tests.unit.llmservice.decide.scenes.services import manifest

ADAPTER = {"name": "an-adapter", "source": "hf://a/b"}
CHANGES: list[tuple[tuple[Any, ...], Any]] = [
    (("replicas",), 2),
    (("state",), "Asleep"),
    (("sleep",), {"afterIdle": "1m"}),
    (("runtime", "image"), "mine:1"),
    (("runtime", "rayVersion"), "2.60.1"),
    (("runtime", "followDefaults"), True),
    (("runtime", "metadata"), {"annotations": {"a": "b"}}),
    (("runtime", "idleTimeout"), "61s"),
    (("runtime", "directIngress"), False),
    (("runtime", "env"), [{"name": "A", "value": "b"}]),
    (("runtime", "imagePullSecrets"), [{"name": "pull"}]),
    (("runtime", "priorityClassName"), "high"),
    (("runtime", "head"), {"resources": {"cpu": "7", "memory": "50Gi"}}),
    (("models", 0, "replicas"), {"min": 1, "max": 39}),
    (("models", 0, "serve"), {"maxOngoingRequests": 1001}),
    (("models", 0, "serve"), {"maxOngoingRequests": 200, "gracefulShutdownTimeout": "7201s"}),
    (("models", 0, "serve", "healthCheckPeriod"), "121m"),
    (("models", 0, "engine"), {"args": {"max_model_len": 77}}),
    (("models", 0, "resources"), {"cpu": "65", "memory": "600Gi"}),
    (("models", 0, "source"), "s3://elsewhere/x"),
    (("models", 0, "lora"), {"maxRank": 32}),
    (("models", 0, "lora"), {"adapters": [ADAPTER]}),
    (("models", 0, "lora"), {"adapters": [{**ADAPTER, "source": "pvc://adapters/a"}]}),
    (("models", 0, "routing"), {"session": {}}),
    (("models", 0, "podTemplate"), {"spec": {"hostIPC": True}}),
    (("models", 0, "accelerator", "tolerations"), [{"key": "x", "operator": "Exists"}]),
]


def changed(spec: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Return the spec with one field as said."""
    spec = copy.deepcopy(spec)
    part: Any = spec
    for step in path[:-1]:
        part = part[step] if isinstance(step, int) else part.setdefault(step, {})
    part[path[-1]] = value
    return spec


def record(svc: LLMService) -> BuiltWith:
    """With what its RayService is built."""
    found = BuiltWith.of(ray_service(svc, PLATFORM))
    assert found is not None
    return found


@given(services(), st.sampled_from(CHANGES))
def test_wishes_differ_if_change_needs_new_replicas_or_pods(svc: LLMService, change: tuple[Any, Any]) -> None:
    before = svc.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    llm = manifest()
    try:
        other = LLMService.from_manifest({**llm, "spec": changed(before, *change)})
        same = LLMService.from_manifest({**llm, "spec": before})
    except InvalidSpec:
        return
    if wishes(same) == wishes(other):
        assert record(same).same(record(other)), "replicas or pods change, and the wishes do not"


@pytest.mark.parametrize(
    ("change", "wish"),
    [
        *[(change, False) for change in CHANGES if change[0][0] in ("replicas", "state", "sleep")],
        (CHANGES[3], True),
        *[(change, False) for change in CHANGES[5:7]],
        (CHANGES[7], True),
        (CHANGES[13], False),
        (CHANGES[14], False),
        (CHANGES[15], True),
        (CHANGES[16], False),
        (CHANGES[17], True),
    ],
)
def test_wishes_differ_only_if_field_cannot_change_in_place(change: tuple[Any, Any], wish: bool) -> None:
    model = {"name": "m", "source": "hf://a/b", "serve": {"maxOngoingRequests": 200}}
    before = manifest(model)
    after = {**before, "spec": changed(before["spec"], *change)}
    one, other = (wishes(LLMService.from_manifest(llm)) for llm in (before, after))
    assert (one != other) is wish


def test_adapter_changes_wishes_only_if_pod_must_provide_adapter() -> None:
    def of(*adapters: dict[str, Any]) -> str:
        model = {"name": "m", "source": "hf://a/b", "lora": {"adapters": list(adapters)}}
        return wishes(LLMService.from_manifest(manifest(model)))

    assert of() == of(ADAPTER)
    assert of() != of({**ADAPTER, "source": "pvc://adapters/a"})
    assert of() != of({**ADAPTER, "token": {"secretKeyRef": {"name": "s", "key": "k"}}})


def test_explicit_default_leaves_wishes_unchanged() -> None:
    written = manifest({"name": "m", "source": "hf://a/b", "parallelism": {"tensor": 1}})
    assert wishes(LLMService.from_manifest(written)) == wishes(
        LLMService.from_manifest(manifest({"name": "m", "source": "hf://a/b"}))
    )
