"""Defaults of a RayService: an upgrade of the operator does not change running pods."""

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from daybreak import versions
from daybreak.api.common import names
from daybreak.api.common.conditions import ConditionType
from daybreak.api.llmservice.definition import LLMService
from daybreak.kinds.llmservice.decide.defaults import Choice, choose
from daybreak.kinds.llmservice.objects.built_with import BuiltWith
from daybreak.kinds.llmservice.objects.ray_service import ray_service
from daybreak.ray.pods import head
from daybreak.ray.serve import serve_config
from tests.unit.llmservice.decide.scenes import sleeping
from tests.unit.llmservice.decide.scenes.services import (
    CPU_MODEL,
    PLATFORM,
    Manifest,
    World,
    manifest,
    message,
    running,
    started,
)

NEW = replace(PLATFORM, ray_cpu_image="ray-cpu:2")
"""Installation after an upgrade of the operator."""


def built(llm: Mapping[str, Any], platform: Any = PLATFORM) -> Manifest:
    """Return the RayService of a service, as an operator has created it."""
    found: Manifest = copy.deepcopy(ray_service(LLMService.from_manifest(llm), platform))
    return found


def chosen(world: World, live: Mapping[str, Any] | None, platform: Any = NEW) -> Choice:
    """Return the choice of an operator with the given defaults."""
    svc = world.observed.subject
    assert svc is not None
    svc = replace(svc, asleep=world.observed.given_back)

    def equal(desired: Any) -> bool:
        return live is not None and desired["spec"] == live["spec"]

    return choose(world.observed, svc, platform, live, equal)


def image(ray: Manifest | None) -> str:
    """Return the image of the Ray pods."""
    assert ray is not None
    pod = ray["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]
    return str(pod["containers"][0]["image"])


def record(ray: Any) -> BuiltWith:
    """Return the defaults of a RayService, without the numbers of replicas."""
    found = BuiltWith.of(ray)
    assert found is not None
    return replace(found, spec="")


def up() -> World:
    """Return the world of a serving service."""
    world = World()
    started(world)
    return world


def test_unchanged_operator_builds_identical_ray_service() -> None:
    live = built(manifest())
    choice = chosen(up(), live, PLATFORM)
    assert choice.desired == live
    assert not choice.replaced


def test_missing_ray_service_is_built_with_new_defaults() -> None:
    assert image(chosen(up(), None).desired) == "ray-cpu:2"


def test_running_ray_service_keeps_defaults_after_operator_upgrade() -> None:
    live = built(manifest())
    assert chosen(up(), live).desired == live, "to the last byte: so nothing is written"
    edited = copy.deepcopy(live)
    edited["spec"]["rayClusterConfig"]["rayVersion"] = "9.9.9"
    assert chosen(up(), edited).desired == live, "what somebody else changes is still put back"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"replicas": 3}, id="kubectl scale"),
        pytest.param({"sleep": {"afterIdle": "5m"}}, id="sleep"),
        pytest.param({"access": {"apiKeys": [{"secretRef": {"name": "a", "key": "b"}}]}}, id="keys"),
        pytest.param({"runtime": {"metadata": {"labels": {"a": "b"}}}}, id="labels of the RayService"),
        pytest.param({"models": [{**CPU_MODEL, "replicas": {"max": 7}}]}, id="range of replicas"),
        pytest.param({"models": [{**CPU_MODEL, "serve": {"maxOngoingRequests": 7}}]}, id="Serve's settings"),
    ],
)
def test_change_in_place_keeps_previous_defaults(spec: Manifest) -> None:
    world, live = up(), built(manifest())
    world.edit(manifest(*spec.get("models", ()), **{k: v for k, v in spec.items() if k != "models"}))
    desired = chosen(world, live).desired
    assert desired == built(world.observed.manifest) | {"metadata": desired["metadata"] if desired else None}
    assert image(desired) == "ray-cpu:1"
    assert record(desired) == record(live)


@pytest.mark.parametrize(
    "model",
    [
        pytest.param({**CPU_MODEL, "engine": {"args": {"max_num_seqs": 4}}}, id="engine"),
        pytest.param({**CPU_MODEL, "resources": {"memory": "9Gi"}}, id="resources"),
        pytest.param({**CPU_MODEL, "serve": {"gracefulShutdownTimeout": "3m"}}, id="the end of pods"),
        pytest.param({**CPU_MODEL, "source": "hf://a/b", "lora": {}}, id="LoRA"),
    ],
)
def test_change_that_needs_new_replicas_adopts_new_defaults(model: Manifest) -> None:
    world = up()
    world.edit(manifest(model))
    assert image(chosen(world, built(manifest())).desired) == "ray-cpu:2"


def test_follow_defaults_adopts_new_defaults_at_once() -> None:
    world, live = up(), built(manifest())
    world.edit(manifest(runtime={"followDefaults": True}))
    assert chosen(world, live, PLATFORM).desired == live, "which alone changes nothing"
    assert image(chosen(world, live).desired) == "ray-cpu:2"


def test_a_head_keeps_the_image_that_it_was_built_with() -> None:
    """A running head keeps its image if an upgrade adds or removes the installation's image for heads."""
    llm = manifest({"name": "llama", "source": "hf://owner/llama"})
    world = World(llm)
    with_head = replace(PLATFORM, ray_head_image="head:1")
    for before, after in [(PLATFORM, with_head), (with_head, PLATFORM)]:
        live = built(llm, before)
        choice = chosen(world, live, after)
        assert choice.desired == live, "to the last byte"
        assert image(built(llm, after)) == image(chosen(world, None, after).desired) != image(live)
    without_record = copy.deepcopy(built(llm))
    report = json.loads(without_record["metadata"]["annotations"][names.BUILT_WITH_ANNOTATION])
    del report["headImage"]
    without_record["metadata"]["annotations"][names.BUILT_WITH_ANNOTATION] = json.dumps(report)
    kept = chosen(world, without_record, with_head).desired
    assert kept is not None
    assert kept["spec"] == without_record["spec"], "of an operator that did not know of them"


def test_sleeping_ray_service_is_replaced_if_defaults_changed() -> None:
    """A sleeping RayService's head also has the old image. A second head would serve no purpose."""
    world = sleeping.asleep()
    svc = world.observed.subject
    assert svc is not None
    live = ray_service(replace(svc, asleep=world.observed.given_back), PLATFORM)
    assert chosen(world, live, PLATFORM) == Choice(live, chosen(world, live, PLATFORM).own)
    choice = chosen(world, live)
    assert (choice.desired, choice.replaced) == (None, True)
    leaving = {**live, "metadata": {**live["metadata"], "deletionTimestamp": "2026-11-21T12:00:00Z"}}
    choice = chosen(world, leaving)
    assert (choice.desired, choice.replaced) == (None, False), "it is waited for"
    made = chosen(world, None).desired
    assert image(made) == "ray-cpu:2"
    assert made is not None
    assert made["spec"]["rayClusterConfig"]["workerGroupSpecs"][0]["replicas"] == 0


def test_wake_in_progress_keeps_previous_defaults() -> None:
    world = sleeping.asleep()
    live = built(world.observed.manifest)
    world.step(gateway=sleeping.view(held=1))
    assert chosen(world, live).desired == live


FAILING: Manifest = {"app": "DEPLOY_FAILED", "message": "no such module", "ready": False}


def test_ray_service_that_fails_to_start_adopts_new_defaults() -> None:
    world = up()
    live = world.observed.ray_service
    assert chosen(world, live).desired is not None
    assert image(chosen(world, live).desired) == "ray-cpu:1"
    world.step(ray_service=running(world, **FAILING))
    assert image(chosen(world, world.observed.ray_service).desired) == "ray-cpu:2"


def test_failing_ray_service_that_never_served_is_replaced_if_pods_change() -> None:
    """KubeRay would keep the previous pods for minutes, which use accelerators or add nodes."""
    world = World()
    world.step()
    live = running(world, active="", pending="chat-aaaaa", **FAILING)
    assert image(chosen(world, live).desired) == "ray-cpu:1", "it starts"
    world.step(ray_service=live)
    choice = chosen(world, live)
    assert (choice.desired, choice.replaced) == (None, True)
    assert chosen(world, live, PLATFORM).replaced is False
    world.edit(manifest(runtime={"env": [{"name": "A", "value": "b"}]}))
    assert chosen(world, live, PLATFORM).replaced
    world.edit(manifest(replicas=2))
    assert not chosen(world, live, PLATFORM).replaced


def test_failed_model_keeps_defaults_while_another_model_serves() -> None:
    other = {**CPU_MODEL, "name": "other"}
    world = World(manifest(CPU_MODEL, other))
    started(world)
    failed = ("DEPLOY_FAILED", "A replica failed to start with exception. Error:\nValueError: no")
    decision = world.step(ray_service=running(world, models={"tiny": "HEALTHY", "other": failed}))
    assert {model.name: model.state for model in decision.status.models}["other"] == "Failed"
    live = built(world.observed.manifest)
    assert chosen(world, live).desired == live


def newer_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return an operator whose code, not its settings, builds other pods and another configuration."""
    monkeypatch.setattr(head, "ROUTER_TIMEOUT_SECONDS", 7)
    monkeypatch.setattr(serve_config, "KEEP_ALIVE_SECONDS", 7)
    monkeypatch.setattr(versions, "RAY", "3.0.0")
    monkeypatch.setattr(versions, "DAYBREAK", "9.0.0")


def test_pods_that_this_operator_cannot_build_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    world, live = up(), built(manifest())
    newer_code(monkeypatch)
    choice = chosen(world, live, PLATFORM)
    assert (choice.desired, choice.replaced) == (None, False)
    assert choice.own.operator == "9.0.0"
    world.edit(manifest(replicas=3))
    desired = chosen(world, live, PLATFORM).desired
    assert desired is not None
    config, before = desired["spec"]["rayClusterConfig"], live["spec"]["rayClusterConfig"]
    assert config["headGroupSpec"] == before["headGroupSpec"]
    assert config["rayVersion"] == before["rayVersion"]
    [group] = config["workerGroupSpecs"]
    assert [group[name] for name in ("replicas", "minReplicas", "maxReplicas")] == [3, 3, 3]
    assert group["template"] == before["workerGroupSpecs"][0]["template"]
    served = yaml.safe_load(desired["spec"]["serveConfigV2"])
    assert served["http_options"] == yaml.safe_load(live["spec"]["serveConfigV2"])["http_options"]
    assert served["applications"][0]["deployments"][1]["autoscaling_config"]["min_replicas"] == 3
    assert record(desired) == record(live)
    again = chosen(world, {**live, **desired}, PLATFORM).desired
    assert again is None, "and then it is as it is to be"


def test_ray_service_without_record_is_adopted_with_same_spec() -> None:
    world, live = up(), built(manifest())
    del live["metadata"]["annotations"][names.BUILT_WITH_ANNOTATION]
    adopted = chosen(world, live).desired
    assert adopted is not None
    assert adopted["spec"] == live["spec"]
    record = BuiltWith.of(adopted)
    assert record is not None
    assert (record.operator, record.image, record.ray_version) == ("", "ray-cpu:1", versions.RAY)
    assert chosen(world, adopted).desired == adopted
    same = chosen(world, adopted, PLATFORM).desired
    assert same == built(manifest()), "what this operator builds just so is its own"
    world.edit(manifest(runtime={"env": [{"name": "A", "value": "b"}]}))
    assert image(chosen(world, live).desired) == "ray-cpu:2"


def test_custom_image_keeps_ray_version_until_image_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = manifest(runtime={"image": "mine:1"})
    world, live = World(pinned), built(pinned)
    started(world)
    monkeypatch.setattr(versions, "RAY", "3.0.0")
    assert chosen(world, live).desired == live
    choice = chosen(world, live)
    assert choice.own.ray_version == "2.60.0", "it is not out of date either"
    world.edit(manifest(runtime={"image": "mine:1", "env": [{"name": "A", "value": "b"}]}))
    desired = chosen(world, live).desired
    assert desired is not None
    assert desired["spec"]["rayClusterConfig"]["rayVersion"] == "2.60.0"
    world.edit(manifest(runtime={"image": "mine:2"}))
    desired = chosen(world, live).desired
    assert desired is not None
    assert desired["spec"]["rayClusterConfig"]["rayVersion"] == "3.0.0"


@pytest.mark.parametrize(
    ("runtime", "message"),
    [
        ({}, versions.RAY),
        ({"image": "mine:2.58.0"}, versions.RAY),
        ({"image": "mine:1", "rayVersion": "2.59.1"}, "2.59.1"),
        ({"image": "rayproject/ray-llm:2.58.0-py311-cu128"}, "2.58.0"),
        ({"image": "registry.example:5000/rayproject/ray:2.58.0@sha256:" + "a" * 64}, "2.58.0"),
        ({"image": "rayproject/ray:nightly"}, versions.RAY),
        ({"image": "rayproject/ray:2.58.0-py311", "rayVersion": "2.59.1"}, "2.59.1"),
    ],
)
def test_ray_version_is_explicit_or_from_official_image_or_default(runtime: Manifest, message: str) -> None:
    assert built(manifest(runtime=runtime))["spec"]["rayClusterConfig"]["rayVersion"] == message


def test_image_with_too_old_ray_is_reported() -> None:
    world = World(manifest(runtime={"image": "rayproject/ray-llm:2.49.0-py311"}))
    assert "spec.runtime.image: Ray 2.49.0 is older" in message(world.step())


def read_report(world: World, live: Manifest) -> Any:
    """Return the status of a service with this RayService, before a newer operator."""
    world.observed = replace(
        world.observed, ray_service=live | {"status": (world.observed.ray_service or {})["status"]}
    )
    return world.step(own=chosen(world, live).own)


def test_status_states_current_and_next_defaults() -> None:
    world = up()
    decision = read_report(world, built(manifest()))
    found = decision.status.model_dump(mode="json", by_alias=True, exclude_none=True)["defaults"]
    now = {"operator": versions.DAYBREAK, "rayVersion": versions.RAY}
    assert found == {
        "image": "ray-cpu:1",
        **now,
        "outdated": True,
        "next": {"image": "ray-cpu:2", **now},
    }
    report = message(decision, ConditionType.ACTIVE)
    assert "image ray-cpu:1" in report
    assert "followDefaults" in report
    decision = read_report(world, built(manifest(), NEW))
    assert decision.status.defaults is not None
    assert (decision.status.defaults.outdated, decision.status.defaults.next) == (False, None)
    assert "followDefaults" not in message(decision, ConditionType.ACTIVE)


def test_invalid_spec_keeps_reported_defaults() -> None:
    world = up()
    before = read_report(world, built(manifest())).status.defaults
    world.edit(manifest(CPU_MODEL, replicas=-1))
    assert world.step(own=None).status.defaults == before
    world.edit(manifest({**CPU_MODEL, "source": "ftp://x"}))
    assert world.step(own=None).status.defaults == before
