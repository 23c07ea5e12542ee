"""Code in a ConfigMap: a change of it creates new pods, and without it the operator creates none."""

from typing import Any

import pytest

from daybreak.api.common import names
from daybreak.api.common.config_map import Content
from daybreak.api.schema.custom_object import InvalidSpec
from daybreak.kinds.serveapplication.decide.plan import make_plan, objects
from daybreak.kinds.serveapplication.functions import view_of
from daybreak.kinds.serveapplication.observe.observed import Observed
from tests.unit.live import beside
from tests.unit.serveapplication.applications import ASKED, HELD, PLATFORM, application, live, observe
from tests.unit.serveapplication.decision import Decision, decide
from tests.unit.serveapplication.test_decision import after, conditions, read_message

SPEC: dict[str, Any] = {"code": {"configMap": "pipeline-code"}}
OLD, NEW = Content(digest="old"), Content(digest="new")
MISSING, AWAITED, UNREADABLE = Content(missing=True), Content(awaited=True), Content()


def built(code: str) -> dict[str, Any]:
    """Return a running RayService with this code."""
    found = live(application(**SPEC), code=code)
    found["metadata"]["ownerReferences"] = [
        {"controller": True, "kind": "ServeApplication", "name": "pipeline", "uid": "u-1"}
    ]
    return found


def look(ray: dict[str, Any] | None, code: Content | None) -> Observed:
    """Return the observation of an application that has served."""
    before = after(decide(observe(traffic=ASKED, spec=SPEC, code=OLD)), built("old"), spec=SPEC, code=OLD)
    return observe(read_message(before), ray, traffic=ASKED, spec=SPEC, code=code)


async def ray_service(one: Observed) -> dict[str, Any] | None:
    """Return the desired RayService, or None."""
    view = view_of(one)
    owned = objects(view, PLATFORM)
    plan = make_plan(view, owned, beside(owned, one.ray_service))
    desired = [each.desired for each in plan.targets if each.desired["kind"] == "RayService"]
    return desired[0] if desired else None


def codes(ray: dict[str, Any] | None) -> set[str | None]:
    """Return the code digests of the RayService and its pods."""
    assert ray is not None
    cluster = ray["spec"]["rayClusterConfig"]
    pods = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    made = [ray["metadata"], *(each["template"]["metadata"] for each in pods)]
    return {each.get("annotations", {}).get(names.CODE_ANNOTATION) for each in made}


async def test_pods_are_annotated_with_code_digest() -> None:
    assert codes(await ray_service(observe(traffic=ASKED, spec=SPEC, code=OLD))) == {"old"}
    assert codes(await ray_service(observe(traffic=ASKED))) == {None}, "code of the image has no digest"


async def test_changed_code_starts_new_cluster_while_application_serves() -> None:
    one = look(built("old"), NEW)
    found = await ray_service(one)
    assert codes(found) == {"new"}
    assert found is not None
    assert found["spec"]["upgradeStrategy"] == {"type": "NewCluster"}, "the old ones answer till then"
    assert conditions(decide(one))["Ready"] == ("True", "Serving")


@pytest.mark.parametrize("code", [OLD, UNREADABLE, AWAITED, MISSING])
async def test_unchanged_or_unknown_code_changes_no_pods(code: Content) -> None:
    ray = built("old")
    found = await ray_service(look(ray, code))
    assert found is not None
    assert found["spec"]["rayClusterConfig"] == ray["spec"]["rayClusterConfig"]
    assert codes(found) == {"old"}


async def test_cluster_built_without_code_digest_is_unchanged() -> None:
    ray = built("")
    found = await ray_service(look(ray, NEW))
    assert found is not None
    assert found["spec"]["rayClusterConfig"] == ray["spec"]["rayClusterConfig"]
    assert found["metadata"]["annotations"][names.CODE_ANNOTATION] == "new", "the next change is seen"


@pytest.mark.parametrize(("code", "reason"), [(MISSING, "CodeNotFound"), (AWAITED, "Progressing")])
async def test_no_ray_cluster_is_created_until_code_is_available(code: Content, reason: str) -> None:
    one = observe(traffic=HELD, spec=SPEC, code=code)
    assert await ray_service(one) is None
    found: Decision = decide(one)
    assert found.apply, "its address is there"
    assert conditions(found)["Ready"][1] == reason
    healed = observe(read_message(found), traffic=HELD, spec=SPEC, code=NEW)
    assert codes(await ray_service(healed)) == {"new"}
    assert conditions(decide(healed))["Stalled"] == ("False", "Reconciled")


def test_missing_config_map_is_reported() -> None:
    found = decide(observe(traffic=HELD, spec=SPEC, code=MISSING))
    assert conditions(found)["Stalled"] == ("True", "CodeNotFound")
    message = next(each.message for each in found.status.conditions if each.type == "Stalled")
    assert message.startswith("ConfigMap pipeline-code, which spec.code names, is not in namespace default")
    assert found.status.gate is not None
    assert "pipeline-code" in (found.status.gate.models[0].reason or ""), "clients receive the reason"


def test_running_application_keeps_serving_without_config_map() -> None:
    found = decide(look(built("old"), MISSING))
    assert conditions(found)["Ready"] == ("True", "Serving")
    assert conditions(found)["Stalled"] == ("True", "CodeNotFound")


async def test_unreadable_config_map_gives_pods_without_code_digest() -> None:
    assert codes(await ray_service(observe(traffic=ASKED, spec=SPEC, code=UNREADABLE))) == {None}


def test_pip_field_is_rejected_with_install_instructions() -> None:
    code = {"workingDir": "https://git.example.com/code.zip", "pip": ["python-multipart"]}
    with pytest.raises(InvalidSpec, match=r"install them into an image.*runtime\.image"):
        application(code=code)
