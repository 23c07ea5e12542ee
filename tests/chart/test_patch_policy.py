"""With `benchmarks.patchServices` the operator may change engine arguments of LLMServices, and nothing else.

Asked of the real API server in the name of the chart's ServiceAccount, as server-side dry-runs.
"""

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from cluster import ControlPlane
from tests.chart.hands import Denied, Hands
from tests.chart.policy import ACCOUNT, DENIED, POLICY, RIGHTS, policies, until
from tests.chart.tools import CHART, NAMESPACE, Helm, Manifest, dump, of_kind

pytestmark = pytest.mark.xdist_group("chart-plane")

MODELS = "patched-models"
PATCH = ("--set", "benchmarks.patchServices=true")
SERVICE: dict[str, Any] = {
    "apiVersion": "daybreak.dev/v1alpha1",
    "kind": "LLMService",
    "metadata": {"name": "chat", "namespace": MODELS, "labels": {"team": "one"}},
    "spec": {
        "models": [
            {"name": "big", "source": "hf://a/big", "engine": {"args": {"max_num_seqs": 64, "seed": 1}}},
            {"name": "small", "source": "hf://a/small"},
        ]
    },
}


@pytest.fixture(scope="module")
def operator(plane: ControlPlane, helm: Helm) -> Iterator[Hands]:
    """Yield a client with the operator's identity and the right to patch, with an existing service."""
    for name in (NAMESPACE, MODELS):
        plane.apply(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
    plane.install_crds([CHART / "files" / "crds"])
    manifests = [m for m in helm.template(*PATCH) if m["kind"] in RIGHTS | POLICY]
    plane.apply(dump(manifests))
    plane.apply(dump([SERVICE]))
    hands = Hands(plane, ACCOUNT, manager="daybreak-benchmark-tune-0")
    moved = {"metadata": {"labels": {"team": "two"}}}
    until(True, lambda: hands.apply(service_with(**moved)))
    yield hands
    plane.kubectl("delete", "-f", "-", stdin=dump([*manifests, SERVICE]))


def service_with(**parts: Any) -> Manifest:
    """Return an apply of single fields."""
    found = {"apiVersion": SERVICE["apiVersion"], "kind": "LLMService", **copy.deepcopy(parts)}
    found["metadata"] = {"name": "chat", "namespace": MODELS, **found.get("metadata", {})}
    return found


def args(model: str, **values: Any) -> dict[str, Any]:
    """Engine arguments of a model."""
    return {"models": [{"name": model, "engine": {"args": values}}]}


@pytest.mark.parametrize("model", ["big", "small"])
def test_operator_may_change_engine_arguments_of_service(operator: Hands, model: str) -> None:
    operator.apply(service_with(spec=args(model, max_num_seqs=128)))


@pytest.mark.parametrize(
    "parts",
    [
        {"spec": {"models": [{"name": "big", "source": "hf://evil/big"}]}},
        {"spec": {"models": [{"name": "big", "replicas": {"min": 9, "max": 9}}]}},
        {"spec": {"models": [{"name": "more", "source": "hf://evil/more"}]}},
        {"spec": {"replicas": 3}},
        {"spec": {"runtime": {"env": [{"name": "A", "value": "b"}]}}},
        {"metadata": {"labels": {"team": "two"}}},
        {"metadata": {"annotations": {"daybreak.dev/rollout-paused": "true"}}},
    ],
)
def test_operator_may_not_change_other_fields_of_service(operator: Hands, parts: dict[str, Any]) -> None:
    with pytest.raises(Denied, match=DENIED):
        operator.apply(service_with(**parts))


def test_operator_may_not_create_service(operator: Hands) -> None:
    other = {**SERVICE, "metadata": {"name": "other", "namespace": MODELS}}
    with pytest.raises(Denied, match=r"(?i)denied|forbidden"):
        operator.apply(other)


def test_patch_right_and_policies_are_rendered_only_if_enabled(helm: Helm) -> None:
    def may_patch(*options: str) -> bool:
        roles = of_kind(helm.template(*options), "ClusterRole")
        rules = [rule for role in roles if role["metadata"]["name"] == "daybreak" for rule in role["rules"]]
        return any("llmservices" in rule["resources"] and "patch" in rule["verbs"] for rule in rules)

    assert not may_patch()
    assert may_patch(*PATCH)
    assert len(policies(helm, *PATCH)) == len(policies(helm)) + 2
