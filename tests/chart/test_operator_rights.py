"""The rights are enough: the operator itself runs with them, and with the settings that the chart gives it.

It runs as a process, in the name of the chart's ServiceAccount, against the real API server. KubeRay and the
model's answer are played as in the API tests. A request that the API server forbids fails the test.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import ControlPlane
from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.objects.llmservice import condition, everything, model, settled, tiny
from tests.api.operator_process import PLAYED_OPERATOR, OperatorProcess
from tests.api.playing.kuberay import PlayedKubeRay
from tests.chart.hands import Hands
from tests.chart.operator_objects import foreign_service
from tests.chart.policy import until
from tests.chart.rendered import environment
from tests.chart.tools import CHART, ROOT, Helm, dump, of_kind, one

pytestmark = pytest.mark.xdist_group("chart-plane")

RELEASED = {"cluster": "rights-operator", "namespaced": "rights-namespaced", "listed": "rights-operator"}
"""Namespace of the operator, in each mode."""
SERVED = {"cluster": "rights-models", "namespaced": "rights-namespaced", "listed": "rights-listed"}
"""Namespace of the LLMService, in each mode."""
SECOND = "rights-second"
"""Second watched namespace, in the mode that lists namespaces."""
WATCH = {
    "cluster": "watch.namespaced=false",
    "namespaced": "watch.namespaced=true",
    "listed": f"watch.namespaces={{{SERVED['listed']},{SECOND}}}",
}


@pytest.fixture(scope="module")
def with_crd(plane: ControlPlane) -> ControlPlane:
    """Return the API server with our CRDs."""
    plane.install_crds([CHART / "files" / "crds"])
    return plane


@pytest.fixture(scope="module", params=list(WATCH))
def mode(request: pytest.FixtureRequest) -> str:
    """Return the scope that the operator watches."""
    return str(request.param)


@pytest.fixture(scope="module")
def admin(with_crd: ControlPlane, mode: str) -> Admin:
    """Return an `Admin` in the LLMService's namespace."""
    admin = Admin(with_crd.kubeconfig, SERVED[mode])
    for name in {RELEASED[mode], SERVED[mode], *([SECOND] if mode == "listed" else [])}:
        with_crd.apply(f'{{"apiVersion": "v1", "kind": "Namespace", "metadata": {{"name": "{name}"}}}}')
    return admin


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that defines which services answer."""
    return tmp_path_factory.mktemp("answers")


@pytest.fixture(scope="module")
def operator(
    with_crd: ControlPlane,
    admin: Admin,
    helm: Helm,
    mode: str,
    answers: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[OperatorProcess]:
    """Yield the operator with the chart's rights and settings, and no others: one for all tests of a mode.

    The Lease is the chart's in one mode; in the other the operator makes it.
    """
    namespace, namespaced = RELEASED[mode], mode == "namespaced"
    manifests = helm.template(
        "--set", WATCH[mode],
        "--set", f"lease.create={str(not namespaced).lower()}", "--set", "crds.enabled=false",
        namespace=namespace,
    )  # fmt: skip
    objects = dump(manifest for manifest in manifests if manifest["kind"] != "Deployment")
    with_crd.apply(objects)
    account = one(manifests, "ServiceAccount")["metadata"]["name"]
    user = f"system:serviceaccount:{namespace}:{account}"
    if of_kind(manifests, "ValidatingAdmissionPolicy"):
        foreign = foreign_service()
        foreign["metadata"]["namespace"] = admin.namespace
        hands = Hands(with_crd, user)
        until(True, lambda: hands.create(foreign))
    folder = tmp_path_factory.mktemp("operator")
    kubeconfig = folder / "operator.kubeconfig"
    with_crd.write_kubeconfig(
        kubeconfig, user, ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
    )
    settings = {
        name.removeprefix("DAYBREAK_"): namespace if value == "metadata.namespace" else value
        for name, value in environment(manifests).items()
        if name.startswith("DAYBREAK_") and name != "DAYBREAK_HTTP_PORT"
    }
    with OperatorProcess(
        kubeconfig, folder / "log", program=PLAYED_OPERATOR, PLAYED_ANSWERS=str(answers), **settings
    ) as process:
        yield process
        assert process.stop() == 0
    with_crd.kubectl("delete", "-f", "-", stdin=objects)


def _kind(item: dict[str, Any]) -> str:
    """Return the kind of an item of a list, which lacks the field `kind`."""
    return "Job" if "template" in item["spec"] else "PersistentVolumeClaim"


def _staying(admin: Admin) -> list[Any]:
    """Return claims that are not being deleted: no controller removes their finalizer here."""
    claims = admin.list("PersistentVolumeClaim")
    return [claim for claim in claims if not claim["metadata"].get("deletionTimestamp")]


def forbidden(admin: Admin) -> int:
    """Return how many requests the API server has forbidden so far, by its own count."""
    lines = admin.raw("GET", "/metrics").decode().splitlines()
    counted = [line for line in lines if re.match(r'apiserver_request_total\{.*code="403"', line)]
    return sum(int(float(line.rpartition(" ")[2])) for line in counted)


def test_operator_rights_are_sufficient_for_service(
    admin: Admin, operator: OperatorProcess, mode: str, answers: Path
) -> None:
    before = forbidden(admin)
    elsewhere = Admin.within(admin, RELEASED[mode])
    assert elsewhere.get("Lease", "daybreak-operator")["spec"]["holderIdentity"]

    admin.create(tiny())
    eventually("all objects made", lambda: everything(admin))
    kuberay = PlayedKubeRay(admin)
    cluster = kuberay.cluster("tiny")
    kuberay.head("tiny", cluster)
    kuberay.status("tiny", cluster)
    kuberay.worker("tiny", cluster, "tiny")
    (answers / f"{admin.namespace}.tiny").write_text("")
    eventually("ready", lambda: condition(admin.get("LLMService", "tiny"), "Ready").get("status") == "True")

    admin.merge("LLMService", "tiny", {"spec": {"replicas": 2}})

    def bounds() -> bool:
        (group,) = admin.get("RayCluster", cluster)["spec"]["workerGroupSpecs"]
        return bool(group["minReplicas"] == 2)

    eventually("the running RayCluster's bounds changed", bounds)
    for kind, name in (
        ("Service", "tiny"),
        ("NetworkPolicy", "tiny-ray"),
        ("PodDisruptionBudget", "tiny-ray"),
    ):
        admin.delete(kind, name)
    eventually("what was deleted made again", lambda: everything(admin))
    admin.merge("LLMService", "tiny", {"spec": {"runtime": {"serviceAccountName": "own"}}})
    eventually("what is not wanted any more deleted", lambda: admin.get("ServiceAccount", "tiny-sa") is None)
    eventually("a status of the latest spec", lambda: settled(admin))
    cached = model(source="s3://bucket/tiny", cache={"size": "1Gi"})
    admin.create(tiny("cached", models=[cached]))
    eventually("a Job and a claim", lambda: admin.list("Job") and admin.list("PersistentVolumeClaim"))
    (job,), (claim,) = admin.list("Job"), admin.list("PersistentVolumeClaim")
    for found in (job, claim):
        name, label = found["metadata"]["name"], {names.PART_OF_LABEL: "wrong"}
        admin.merge(_kind(found), name, {"metadata": {"labels": label}})
    eventually(
        "what was changed mended",
        lambda: all(
            each["metadata"]["labels"][names.PART_OF_LABEL] == names.MANAGED_BY
            for each in (*admin.list("Job"), *admin.list("PersistentVolumeClaim"))
        ),
    )
    admin.merge("LLMService", "cached", {"spec": {"models": [model()]}})
    eventually("neither any more", lambda: not admin.list("Job") and not _staying(admin))
    admin.delete("LLMService", "cached")
    eventually("an event", lambda: "Serving" in {event["reason"] for event in admin.list("Event")})

    assert forbidden(admin) == before
    asked_for_nodes = operator.metric("daybreak_api_requests_total", resource="nodes") > 0
    assert asked_for_nodes == (mode != "namespaced")
    assert "orbidden" not in operator.log()
    admin.delete("LLMService", "tiny")


def test_operator_rights_are_sufficient_for_batch(admin: Admin, operator: OperatorProcess) -> None:
    before = forbidden(admin)
    desired = yaml.safe_load((ROOT / "manifests" / "samples" / "batch.yaml").read_text())
    name = desired["metadata"]["name"]
    admin.create(desired)
    eventually("a RayJob", lambda: admin.get("RayJob", name))
    eventually("a status", lambda: (admin.get("LLMBatch", name).get("status") or {}).get("jobHash"))
    admin.merge("LLMBatch", name, {"spec": {"activeDeadline": "1h"}})
    eventually(
        "the RayJob changed",
        lambda: admin.get("RayJob", name)["spec"].get("activeDeadlineSeconds") == 3600,
    )
    admin.merge("LLMBatch", name, {"spec": {"suspend": True}})
    eventually("no RayJob", lambda: admin.get("RayJob", name) is None)
    eventually("Suspended", lambda: admin.get("LLMBatch", name)["status"]["phase"] == "Suspended")
    eventually("an event", lambda: "Suspended" in {event["reason"] for event in admin.list("Event")})
    assert forbidden(admin) == before
    assert "orbidden" not in operator.log()
    admin.delete("LLMBatch", name)


def test_operator_rights_are_sufficient_for_benchmark(admin: Admin, operator: OperatorProcess) -> None:
    before = forbidden(admin)
    desired = yaml.safe_load((ROOT / "manifests" / "samples" / "load-test.yaml").read_text())
    name = desired["metadata"]["name"]
    admin.create(desired)
    eventually("a Job", lambda: admin.get("Job", f"{name}-benchmark"))
    eventually("a status", lambda: (admin.get("LLMBenchmark", name).get("status") or {}).get("jobHash"))
    admin.merge("LLMBenchmark", name, {"spec": {"suspend": True}})
    eventually("no Job", lambda: admin.get("Job", f"{name}-benchmark") is None)
    eventually("Suspended", lambda: admin.get("LLMBenchmark", name)["status"]["phase"] == "Suspended")
    eventually("an event", lambda: "Suspended" in {event["reason"] for event in admin.list("Event")})
    assert forbidden(admin) == before
    assert "orbidden" not in operator.log()
    admin.delete("LLMBenchmark", name)


def test_operator_rights_are_sufficient_for_model_server(
    admin: Admin, operator: OperatorProcess, answers: Path
) -> None:
    before = forbidden(admin)
    desired = yaml.safe_load((ROOT / "manifests" / "samples" / "model-server.yaml").read_text())
    name = desired["metadata"]["name"]
    admin.create(desired)
    eventually("a Deployment", lambda: admin.get("Deployment", f"{name}-server"))
    eventually("a gateway", lambda: admin.get("Deployment", "daybreak-gateway"))
    eventually("a status", lambda: (admin.get("ModelServer", name).get("status") or {}).get("gate"))
    admin.merge("ModelServer", name, {"spec": {"replicas": 2}})
    eventually("two", lambda: admin.get("Deployment", f"{name}-server")["spec"]["replicas"] == 2)
    several = yaml.safe_load((ROOT / "manifests" / "samples" / "model-server-nodes.yaml").read_text())
    group = f"{several['metadata']['name']}-server"
    admin.create(several)
    eventually("a LeaderWorkerSet", lambda: admin.get("LeaderWorkerSet", group))
    admin.merge("ModelServer", several["metadata"]["name"], {"spec": {"state": "Asleep"}})
    eventually("none", lambda: admin.get("LeaderWorkerSet", group)["spec"]["replicas"] == 0)
    admin.delete("ModelServer", several["metadata"]["name"])
    assert forbidden(admin) == before
    assert "orbidden" not in operator.log()
    admin.delete("ModelServer", name)


def test_operator_rights_are_sufficient_for_application(admin: Admin, operator: OperatorProcess) -> None:
    before = forbidden(admin)
    sample = (ROOT / "manifests" / "samples" / "application.yaml").read_text()
    code, desired = yaml.safe_load_all(sample)
    name = desired["metadata"]["name"]
    admin.create(desired)
    eventually("its code is missed", lambda: condition(admin.get("ServeApplication", name), "Stalled"))
    assert condition(admin.get("ServeApplication", name), "Stalled")["reason"] == "CodeNotFound"
    admin.create(code)
    eventually("a RayService", lambda: admin.get("RayService", name))
    assert names.CODE_ANNOTATION in admin.get("RayService", name)["metadata"]["annotations"]
    selector = names.owner_selector(f"application.{name}")
    assert admin.list("ControllerRevision", labelSelector=selector), "what it can go back to"
    eventually("a gateway", lambda: admin.get("Deployment", "daybreak-gateway"))
    eventually("a status", lambda: (admin.get("ServeApplication", name).get("status") or {}).get("gate"))
    admin.merge("ServeApplication", name, {"spec": {"state": "Asleep"}})
    eventually("no RayService", lambda: admin.get("RayService", name) is None)
    assert forbidden(admin) == before
    assert "orbidden" not in operator.log()
    admin.delete("ServeApplication", name)
    admin.delete("ConfigMap", code["metadata"]["name"])


def test_operator_rights_are_sufficient_for_route(admin: Admin, operator: OperatorProcess) -> None:
    before = forbidden(admin)
    desired = yaml.safe_load((ROOT / "manifests" / "samples" / "route.yaml").read_text())
    name = desired["metadata"]["name"]
    admin.create(desired)
    eventually("a status", lambda: (admin.get("LLMRoute", name).get("status") or {}).get("names"))
    eventually("an event", lambda: "BackendNotFound" in {event["reason"] for event in admin.list("Event")})
    assert forbidden(admin) == before
    assert "orbidden" not in operator.log()
    admin.delete("LLMRoute", name)


def test_operator_serves_only_watched_namespaces(admin: Admin, operator: OperatorProcess, mode: str) -> None:
    """In another namespace: made by the cluster-wide operator, left alone by one that does not watch it."""
    other = Admin.within(admin, "rights-elsewhere")
    if other.get("Namespace", "rights-elsewhere") is None:
        other.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "rights-elsewhere"}})
    other.create(tiny())
    try:
        admin.create(tiny("second"))
        eventually("a service of its own made", lambda: admin.get("RayService", "second"))
        if mode == "listed":
            beside = Admin.within(admin, SECOND)
            beside.create(tiny())
            eventually("one in the other namespace of the list made", lambda: everything(beside))
            eventually("its gateway, too", lambda: beside.get("Deployment", names.GATEWAY))
            beside.delete("LLMService", "tiny")
            eventually("its gateway gone again", lambda: beside.get("Deployment", names.GATEWAY) is None)
        if mode == "cluster":
            eventually("the other made too", lambda: everything(other))
        else:
            # An operator that watched the namespace would have reconciled its older object by now.
            eventually("a status of second", lambda: condition(admin.get("LLMService", "second"), "Ready"))
            assert other.get("RayService", "tiny") is None
            assert "status" not in other.get("LLMService", "tiny")
    finally:
        other.delete("LLMService", "tiny")
        admin.delete("LLMService", "second")
        for kind, name in (("RayService", "tiny"), ("Service", "tiny")):
            if other.get(kind, name) is not None:
                other.delete(kind, name)


@pytest.mark.parametrize("mode", ["cluster"], indirect=True)
def test_denial_by_admission_policy_is_reported_in_condition(admin: Admin, operator: OperatorProcess) -> None:
    """Reported as any other rejection, with the chart's value that would allow it.

    The last of its mode: the operator's log reports it in the words that the other tests look for.
    """
    volumes = [{"name": "host", "hostPath": {"path": "/etc"}}]
    admin.create(tiny("reaching", models=[model(podTemplate={"spec": {"volumes": volumes}})]))
    try:
        refused = eventually(
            "refused",
            lambda: (
                found
                if (found := condition(admin.get("LLMService", "reaching"), "Ready")).get("reason")
                == "ObjectRejected"
                else None
            ),
        )
        assert "hostPath" in refused["message"]
        assert "admissionPolicy.allowHostAccess=true" in refused["message"]
        assert admin.get("RayService", "reaching") is None
    finally:
        admin.delete("LLMService", "reaching")
