"""What becomes of a Deployment that another operator, or one with other engines, has made."""

import json
from typing import Any

import pytest

from daybreak.api.common.unstructured import Manifest
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.profiles import with_own
from daybreak.kinds.modelserver.decide.decision import view_of
from daybreak.kinds.modelserver.objects.deployment import configuration
from daybreak.kinds.modelserver.observe.observed import Observed
from daybreak.kinds.modelserver.plan import make_plan
from daybreak.kube.watching.cache import Cache
from tests.unit.modelserver.servers import NOW, PLATFORM, live, manifest, pod

PROFILE = {"image": "own:1", "args": ["--at={port}"], "flags": "none", "port": 8090, "readinessPath": "/up"}


class Applier:
    """Knows the Deployment that is there."""

    def __init__(self, found: Manifest) -> None:
        self._found = found

    async def live(self, wanted: Manifest) -> Manifest | None:
        """What is there of it."""
        return self._found if wanted["kind"] == "Deployment" else None


async def kept(answers: bool, spec: dict[str, Any], **profile: Any) -> bool:
    """Whether pods that run go on, after the profile and the spec have changed."""
    before = with_own(json.dumps({"own": PROFILE}))
    after = with_own(json.dumps({"own": PROFILE | profile}))
    one = ModelServer.from_manifest(manifest(engine="own"), before)
    found = live(one)
    runs = configuration(found)
    whole = manifest({"answered": runs} if answers else {}, engine="own", **spec)
    two = ModelServer.from_manifest(whole, after)
    seen = Observed(whole, two, (), NOW, None, deployment=found, pods=(pod(one, runs=runs),))
    plan = await make_plan(view_of(seen), PLATFORM, Cache(), Applier(found))  # type: ignore[arg-type]
    [wanted] = [each.wanted for each in plan.targets if each.wanted["kind"] == "Deployment"]
    return bool(wanted["spec"]["template"] == found["spec"]["template"])


@pytest.mark.parametrize(
    ("answers", "spec", "profile", "stays"),
    [
        (True, {}, {}, True),
        (True, {}, {"args": ["--at={port}", "--new"]}, True),
        (False, {}, {"args": ["--at={port}", "--new"]}, False),
        (True, {"env": [{"name": "A", "value": "b"}]}, {}, False),
        (True, {}, {"port": 9000}, False),
        (True, {}, {"readinessPath": "/ready"}, False),
    ],
)
async def test_pods_that_answer_go_on_where_gateways_find_them(
    answers: bool, spec: dict[str, Any], profile: dict[str, Any], stays: bool
) -> None:
    assert await kept(answers, spec, **profile) is stays
