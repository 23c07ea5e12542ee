"""Every change of a service ends where a fresh one with the same spec ends: set, changed, unset, set back.

Without a gateway, and with one as in the default installation: then the namespace's gateway is part of the
end, and some specs put the service to sleep.
"""

import contextlib
import itertools
import time
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import yaml

from cluster import ControlPlane, paths
from daybreak.manifests.resources import DEPLOYMENTS
from tests.api.admin import JSON_PATCH, Admin, eventually, own_namespace
from tests.api.normal import normal
from tests.api.objects.llmservice import NAMES, model, settled, tiny
from tests.api.objects.sleeper import GATEWAY
from tests.api.operator_process import OperatorProcess, played_operator
from tests.api.playing.jobs import complete_all

QUIET_SECONDS = 3.0
"""After this long without a write nothing more comes: a gateway is looked at a second after its services."""
EVERYTHING = yaml.safe_load((paths.REPOSITORY / "tests" / "golden" / "everything.yaml").read_text())["spec"]
OWN_ACCOUNT = EVERYTHING["runtime"]["serviceAccountName"]
TOKEN = {"secretKeyRef": {"name": "hub", "key": "token"}}
# No spec has a model that may sleep next to a sleeping one: once asleep, it would stay so until a request.
SPECS: dict[str, dict[str, Any]] = {
    "plain": {},
    "all of it asleep": {"state": "Asleep", "sleep": {"depth": "Cluster"}},
    "own account": {"runtime": {"serviceAccountName": "mine", "priorityClassName": "high"}},
    "environment": {
        "runtime": {
            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": TOKEN}],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            "imagePullSecrets": [{"name": "registry"}],
        }
    },
    "other environment": {"runtime": {"env": [{"name": "B", "value": "2"}], "image": "other/ray:1"}},
    "engine": {
        "models": [
            model(
                engine={"args": {"max_model_len": 1024, "max_num_seqs": 4}},
                replicas={"min": 0, "max": 4, "upscalingFactor": 2, "downscaleToZeroDelay": "20m"},
                serve={"maxOngoingRequests": 7, "maxQueuedRequests": 9},
                resources={"cpu": "3", "memory": "6Gi"},
            )
        ]
    },
    "two models": {"models": [model(), model(name="other", source="hf://a/b", token=TOKEN)]},
    "nodes": {
        "models": [
            model(
                accelerator={
                    "kind": "cpu",
                    "nodeSelector": {"pool": "big"},
                    "tolerations": [{"key": "big", "operator": "Exists"}],
                }
            )
        ],
        "runtime": {"head": {"nodeSelector": {"pool": "small"}, "resources": {"memory": "5Gi"}}},
    },
    "graphics": {
        "models": [model(accelerator={"kind": "gpu"}, parallelism={"tensor": 2})],
        "replicas": 2,
    },
    "everything asleep": {**EVERYTHING, "state": "Asleep"},
    "keys": {
        "access": {"apiKeys": [{"secretRef": {"name": "keys", "key": "other"}}]},
        "hold": {"timeout": "1h"},
        "state": "Awake",
    },
    "everything": EVERYTHING,
}
ONLY_WITH_A_GATEWAY = ("all of it asleep", "everything asleep", "keys")
"""Specs that differ from another one only in what has no effect without a gateway."""


@pytest.fixture(scope="module", params=[{}, GATEWAY], ids=["direct", "gateway"])
def operator(
    request: pytest.FixtureRequest,
    plane: ControlPlane,
    tmp_path_factory: pytest.TempPathFactory,
    answers: Any,
) -> Iterator[OperatorProcess]:
    """Yield the operator, watching all namespaces, without gateways and with them."""
    folder = tmp_path_factory.mktemp("operator")
    with played_operator(plane.kubeconfig, folder, answers, **request.param) as process:
        yield process


@pytest.fixture(scope="module")
def fresh(plane: ControlPlane, operator: OperatorProcess) -> Iterator[dict[str, Any]]:
    """Return the result of a fresh service of each spec."""
    everywhere = Admin(plane.kubeconfig)
    admins = {name: everywhere.within(f"fresh-{uuid.uuid4().hex[:8]}") for name in SPECS}
    for name, admin in admins.items():
        everywhere.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": admin.namespace}})
        _create(admin, name)
    for name, admin in admins.items():
        eventually(f"a fresh service: {name}", partial(_end, admin))
    eventually("nothing more is written", lambda: _quiet(operator))
    yield {name: _end(admin) for name, admin in admins.items()}
    for admin in admins.values():
        everywhere.delete("Namespace", admin.namespace)


PAIRS = [*itertools.pairwise([*SPECS, "plain"]), ("environment", "engine"), ("graphics", "own account")]


def test_each_spec_leads_to_different_objects(fresh: dict[str, Any]) -> None:
    gated = any(end["gateway"] for end in fresh.values())
    ends = [end for name, end in fresh.items() if gated or name not in ONLY_WITH_A_GATEWAY]
    assert not any(one == other for one, other in itertools.combinations(ends, 2))


@pytest.mark.timeout(900)
def test_changed_service_ends_like_fresh_service_of_same_spec(
    fresh: dict[str, Any], plane: ControlPlane
) -> None:
    """From the first of each pair to the second and back: all pairs at once, each in a separate namespace."""
    everywhere = Admin(plane.kubeconfig)
    with contextlib.ExitStack() as stack:
        admins = [stack.enter_context(own_namespace(everywhere, "pair")) for _ in PAIRS]
        pairs = dict(zip(PAIRS, admins, strict=True))
        for (first, _), admin in pairs.items():
            _create(admin, first)
        _wait("the first spec", fresh, pairs, 0)
        for position in (1, 0):
            for pair, admin in pairs.items():
                # A patch, since the operator may write the status at the same time.
                spec = {"op": "replace", "path": "/spec", "value": tiny(**SPECS[pair[position]])["spec"]}
                admin.request("PATCH", admin.path("LLMService", "tiny"), [spec], JSON_PATCH)
            _wait("the other one" if position else "the first one again", fresh, pairs, position)


def _create(admin: Admin, name: str) -> None:
    """Make the service of a spec, and the account that the pods of its Jobs must find."""
    admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": OWN_ACCOUNT}})
    admin.create(tiny(**SPECS[name]))


def _wait(what: str, fresh: dict[str, Any], pairs: dict[tuple[str, str], Admin], position: int) -> None:
    """Until each service of a pair ends as a fresh one of its spec, the one at this position of the pair."""
    left = dict(pairs)

    def look() -> bool:
        for pair, admin in pairs.items():
            if pair in left and _end(admin) == fresh[pair[position]]:
                del left[pair]
        return not left

    try:
        eventually(what, look, 240)
    except AssertionError as error:
        raise AssertionError(f"{error}: {[(pair, pair[position]) for pair in left]}") from None


def _quiet(operator: OperatorProcess) -> bool:
    """Return True if the operator has written nothing for a while."""
    written = operator.metric("daybreak_writes_total")
    time.sleep(QUIET_SECONDS)
    return operator.metric("daybreak_writes_total") == written


def _end(admin: Admin) -> Any:
    """The service's objects and its gateway's pods when its status speaks of its present spec; else None."""
    complete_all(admin)
    if not settled(admin):
        return None
    objects = {kind: found for kind, name in NAMES.items() if (found := admin.get(kind, name))}
    deployments = admin.request("GET", DEPLOYMENTS.path(admin.namespace))["items"]
    return normal(admin, objects) | {"gateway": [each["spec"]["template"] for each in deployments]}
