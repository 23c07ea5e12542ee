"""All objects of a namespace's gateway as text, so that a review sees every change.

After a wanted change: `pytest tests/golden --snapshot-update`, and read the difference.
"""

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.pods.gateway_pods import GatewayPods
from daybreak.assembly import WORKLOADS
from daybreak.gateways.objects import gateway
from daybreak.platform import Platform
from tests.golden.test_samples import PLATFORM, Manifests, as_text

PODS = {
    "pullPolicy": "Always",
    "resources": {"requests": {"cpu": 1, "memory": "512Mi"}, "limits": {"memory": "4Gi"}},
    "nodeSelector": {"pool": "small"},
    "tolerations": [{"key": "small", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "priorityClassName": "high",
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "podTemplate": {
        "metadata": {"labels": {"team": "models"}, "annotations": {"note": "a"}},
        "spec": {
            "runtimeClassName": "gvisor",
            "containers": [
                {"name": "gateway", "env": [{"name": "A", "value": "b"}]},
                {"name": "logs", "image": "registry.example.com/logs:1"},
            ],
        },
    },
}
EVERYTHING = replace(
    PLATFORM,
    gateway_replicas=3,
    gateway_pull_secrets=("registry", "mirror"),
    gateway_pods=GatewayPods.model_validate(PODS),
    network_policy=False,
)


@pytest.mark.parametrize(
    ("platform", "secrets"),
    [
        pytest.param(PLATFORM, set(), id="default"),
        pytest.param(EVERYTHING, {"team-keys", "more-keys"}, id="everything"),
    ],
)
def test_gateway_objects_match_snapshot(
    platform: Platform, secrets: set[str], snapshot: SnapshotAssertion
) -> None:
    assert as_text(gateway("default", WORKLOADS, platform, secrets, [LLM_ROUTES])) == snapshot(
        extension_class=Manifests
    )
