"""The CRD on the real API server: what it refuses, what it fills in, how kubectl shows it."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import ClusterError, ControlPlane
from daybreak.api.llmservice import crd
from daybreak.api.llmservice.definition import NAME_LIMIT, LLMService
from tests.accepted_specs import TAKEN
from tests.api.admin import Admin, Refused
from tests.broken_specs import BY_RULE
from tests.out_of_bounds_specs import BY_SCHEMA
from tests.specs import Broken, manifest

ROOT = Path(__file__).parents[3]
SAMPLES = ROOT / "manifests" / "samples"
FILES = sorted(path for path in SAMPLES.glob("*.yaml") if "kind: LLMService\n" in path.read_text())

Manifest = dict[str, Any]


NAMESPACE = "crd"


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Admin:
    """Return an `Admin` in one namespace for all tests of this module: most of them write nothing."""
    everywhere = Admin(plane.kubeconfig)
    everywhere.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    return everywhere.within(NAMESPACE)


def kubectl(plane: ControlPlane, *arguments: str, stdin: str | None = None) -> str:
    """kubectl in the tests' namespace."""
    return plane.kubectl("-n", NAMESPACE, *arguments, stdin=stdin)


def post(admin: Admin, whole: Manifest, **query: str) -> Any:
    """Create it as kubectl does: unknown fields are refused."""
    path = admin.path("LLMService")
    return admin.request("POST", path, whole, query={"fieldValidation": "Strict", **query})


@pytest.fixture
def stored(admin: Admin) -> Iterator[Any]:
    """Create an LLMService."""
    yield post(admin, manifest("stored", replicas=1))
    admin.delete("LLMService", "stored")


def test_crd_is_established_and_structural(admin: Admin) -> None:
    observed = admin.request(
        "GET",
        f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd.CRD.manifest()['metadata']['name']}",
    )
    conditions = {condition["type"]: condition["status"] for condition in observed["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


@pytest.mark.parametrize("broken", BY_RULE, ids=lambda broken: broken.id)
def test_violated_rule_is_rejected_with_its_message(admin: Admin, broken: Broken) -> None:
    with pytest.raises(Refused) as refusal:
        post(admin, broken.manifest, dryRun="All")
    assert refusal.value.status == 422
    assert broken.rule in str(refusal.value).replace(r"\u003e", ">")
    assert broken.path in str(refusal.value)


@pytest.mark.parametrize("broken", BY_SCHEMA, ids=lambda broken: broken.id)
def test_out_of_bounds_value_is_rejected_with_field_path(admin: Admin, broken: Broken) -> None:
    with pytest.raises(Refused) as refusal:
        post(admin, broken.manifest, dryRun="All")
    assert refusal.value.status in {400, 422}
    assert broken.path in str(refusal.value)


@pytest.mark.parametrize("taken", TAKEN.values(), ids=TAKEN.keys())
def test_unusual_valid_spec_is_accepted_unchanged(admin: Admin, taken: Manifest) -> None:
    kept = post(admin, taken, dryRun="All")
    # The manifest that the API server returns means the same to the operator as the one that was sent.
    assert LLMService.from_manifest(kept).spec == LLMService.from_manifest(taken).spec
    written = taken["spec"]["models"][0].get("engine", {})
    assert kept["spec"]["models"][0]["engine"] == written


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_api_server_accepts_sample(admin: Admin, path: Path) -> None:
    sample = yaml.safe_load(path.read_text())
    assert LLMService.from_manifest(post(admin, sample, dryRun="All")).spec.models


def test_defaults_are_written_into_the_object(stored: Any) -> None:
    model = stored["spec"]["models"][0]
    assert model["accelerator"] == {"kind": "gpu"}
    assert model["parallelism"] == {"tensor": 1, "pipeline": 1}
    assert model["replicas"]["min"] == 1
    assert model["replicas"]["upscaleDelay"] == "10s"
    assert model["serve"]["maxOngoingRequests"] == 256
    assert stored["spec"]["runtime"]["head"]["resources"] == {"cpu": "1", "memory": "4Gi"}
    assert "sleep" not in stored["spec"]


def test_removed_field_returns_to_default(admin: Admin, stored: Any) -> None:
    changed = admin.merge("LLMService", "stored", {"spec": {"runtime": {"idleTimeout": "5m"}}})
    assert changed["spec"]["runtime"]["idleTimeout"] == "5m"
    unset = admin.merge("LLMService", "stored", {"spec": {"runtime": None}})
    assert unset["spec"] == stored["spec"]


def test_fields_of_two_field_managers_are_merged(plane: ControlPlane, admin: Admin, stored: Any) -> None:
    """One applies a model, another its variables: neither takes the other's away."""
    for manager, spec in (
        ("one", {"models": [{"name": "second", "source": "hf://owner/second"}]}),
        ("two", {"runtime": {"env": [{"name": "A", "value": "1"}]}, "models": [{"name": "chat"}]}),
    ):
        part = {**manifest("stored"), "spec": spec}
        text = yaml.safe_dump(part)
        kubectl(plane, "apply", "--server-side", f"--field-manager={manager}", "-f", "-", stdin=text)
    observed = admin.get("LLMService", "stored")["spec"]
    assert [model["name"] for model in observed["models"]] == ["chat", "second"]
    assert observed["runtime"]["env"] == [{"name": "A", "value": "1"}]


def test_status_and_spec_are_written_separately(admin: Admin, stored: Any) -> None:
    status = {
        "phase": "Awake",
        "replicas": 2,
        "selector": "daybreak.dev/owner-kind=LLMService,daybreak.dev/owner-name=stored",
    }
    observed = admin.merge("LLMService", "stored", {"status": status, "spec": {"replicas": 9}}, "status")
    assert observed["status"] == status
    assert observed["spec"]["replicas"] == 1
    assert observed["metadata"]["generation"] == stored["metadata"]["generation"]
    ignored = admin.merge("LLMService", "stored", {"status": {"phase": "Failed"}})
    assert ignored["status"]["phase"] == "Awake"


def test_invalid_status_is_rejected(admin: Admin, stored: Any) -> None:
    condition = {
        "type": "Ready", "status": "Maybe", "reason": "X", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    with pytest.raises(Refused, match="Maybe"):
        admin.merge("LLMService", "stored", {"status": {"conditions": [condition]}}, "status")
    twins = [condition | {"status": "True"}] * 2
    with pytest.raises(Refused, match="Duplicate"):
        admin.merge("LLMService", "stored", {"status": {"conditions": twins}}, "status")


def test_kubectl_scale_changes_replicas_in_spec(plane: ControlPlane, admin: Admin, stored: Any) -> None:
    admin.merge("LLMService", "stored", {"status": {"replicas": 1, "selector": "a=b"}}, "status")
    kubectl(plane, "scale", "llm", "stored", "--replicas=3")
    assert admin.get("LLMService", "stored")["spec"]["replicas"] == 3
    scale = admin.request("GET", admin.path("LLMService", "stored") + "/scale")
    assert (scale["spec"]["replicas"], scale["status"]) == (3, {"replicas": 1, "selector": "a=b"})


def test_kubectl_scale_sets_unset_replicas(plane: ControlPlane, admin: Admin, stored: Any) -> None:
    admin.merge("LLMService", "stored", {"spec": {"replicas": None}})
    # An autoscaler reads before it writes (docs/install.md). A default would be each model's number.
    with pytest.raises(Refused, match="does not exist"):
        admin.request("GET", admin.path("LLMService", "stored") + "/scale")
    kubectl(plane, "scale", "llm/stored", "--replicas=2")
    assert admin.get("LLMService", "stored")["spec"]["replicas"] == 2


def test_kubectl_scale_beyond_bounds_is_rejected(plane: ControlPlane, stored: Any) -> None:
    with pytest.raises(ClusterError, match=r"spec\.replicas"):
        kubectl(plane, "scale", "llm", "stored", "--replicas=1001")


def test_kubectl_get_prints_expected_columns(plane: ControlPlane, admin: Admin, stored: Any) -> None:
    ready = {
        "type": "Ready", "status": "False", "reason": "ModelFailed", "message": "chat: out of memory",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    at = "2026-01-01T00:00:00Z"
    gate = {
        "state": "Closed", "epoch": 1, "holdSeconds": 60, "phase": "Waking", "phaseTransitionTime": at,
    }  # fmt: skip
    room = {"position": 2, "expectedTime": "2026-01-01T00:01:00Z"}
    other = ready | {"type": "Stalled", "status": "True", "reason": "Other"}
    status = {
        "phase": "Failed", "replicas": 2, "accelerators": 8, "url": "http://stored.crd.svc/v1",
        "defaults": {"outdated": True}, "conditions": [other, ready],
        "savings": {"savedSeconds": 12.5, "startTime": at, "updateTime": at},
        "rollout": {
            "phase": "Progressing", "currentRevisionNumber": 3, "currentRevision": "stored-0123456789"
        },
        "gate": {
            "port": 20001,
            "models": [{**gate, "name": "one"}, {**gate, "name": "two", "acceleratorQueue": room}],
        },
    }  # fmt: skip
    admin.merge("LLMService", "stored", {"status": status}, "status")
    heading, line = kubectl(plane, "get", "llm", "stored").splitlines()
    assert heading.split() == ["NAME", "READY", "PHASE", "REASON", "REPLICAS", "URL", "AGE"]
    assert line.split()[:-1] == [
        "stored",
        "False",
        "Failed",
        "ModelFailed",
        "2",
        "http://stored.crd.svc/v1",
    ]
    heading, line = kubectl(plane, "get", "daybreak", "-o", "wide").splitlines()
    assert heading.split()[-5:] == ["SAVED", "ROLLOUT", "REVISION", "OUTDATED", "MESSAGE"]
    assert line.split()[-11:-9] == ["2", "2026-01-01T00:01:00Z"], "of the model that waits"
    assert line.split()[-9:] == ["8", "12.5", "Progressing", "3", "true", "chat:", "out", "of", "memory"]


def test_kubectl_explain_describes_fields(plane: ControlPlane) -> None:
    text = kubectl(plane, "explain", "llm.spec.models.parallelism")
    assert "tensor\t<integer>" in text
    assert "vLLM's `tensor_parallel_size`" in " ".join(text.split())
    models = kubectl(plane, "explain", "llm.spec.models")
    assert "name\t<string> -required-" in models
    assert "enum: STRICT_PACK, PACK" in models


def test_kubectl_rejects_unknown_field(plane: ControlPlane) -> None:
    wrong = manifest("typo")
    wrong["spec"]["models"][0]["replica"] = 2
    with pytest.raises(ClusterError, match=r"spec\.models\[0\]\.replica"):
        kubectl(plane, "apply", "-f", "-", stdin=yaml.safe_dump(wrong))


def test_api_server_accepts_largest_service(admin: Admin) -> None:
    tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(32)]
    labels = {f"example.com/label-{number}": "v" * 63 for number in range(32)}
    model = {
        "source": f"hf://{'o' * 60}/{'m' * 900}",
        "engine": {"args": {f"argument_{number}": "v" * 100 for number in range(128)}},
        "accelerator": {"tolerations": tolerations, "nodeSelector": labels},
    }
    models = [copy.deepcopy(model) | {"name": f"{number:02}{'n' * 94}"} for number in range(16)]
    env = [{"name": f"V{number}", "value": "v" * 1000} for number in range(64)]
    assert post(admin, manifest("n" * NAME_LIMIT, models=models, runtime={"env": env}), dryRun="All")
