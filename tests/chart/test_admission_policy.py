"""The admission policy bounds the operator's identity, and no other client, on the real API server.

Requests are made in the name of the chart's ServiceAccount and with its rights, as server-side dry-runs:
admission judges them, and nothing is kept.
"""

import copy
from collections.abc import Callable, Iterator

import pytest

from cluster import ControlPlane
from daybreak.assembly import WORKLOADS
from daybreak.gateways.objects import gateway
from tests.chart.forbidden_objects import WRONG
from tests.chart.hands import Denied, Hands
from tests.chart.operator_objects import (
    HOST,
    MODELS,
    WITH_ROLE,
    foreign_service,
    head,
    objects,
    of_a_report,
    of_a_route,
    of_gateway,
    of_sample,
    of_the_batch,
    pod,
)
from tests.chart.policy import ACCOUNT, DENIED, enforced, until
from tests.chart.tools import NAMESPACE, Helm, Manifest, dump
from tests.golden.test_samples import (
    PLATFORM,
    applications,
    batches,
    benchmarks,
    of_application,
    of_batch,
    of_benchmark,
    of_server,
    servers,
    services,
)

pytestmark = pytest.mark.xdist_group("chart-plane")


@pytest.fixture(scope="module")
def policed(plane: ControlPlane, rendered: list[Manifest]) -> Iterator[ControlPlane]:
    """Yield the API server with the chart's policy, by default values."""
    namespaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        for name in (NAMESPACE, MODELS, WITH_ROLE)
    ]
    role = {**of_gateway("Role"), "metadata": {**of_gateway("Role")["metadata"], "namespace": WITH_ROLE}}
    plane.apply(dump([*namespaces, role]))
    manifests = [*enforced(plane, rendered), role]
    hands = Hands(plane, ACCOUNT)
    until(True, lambda: hands.create(foreign_service()))
    yield plane
    plane.kubectl("delete", "-f", "-", stdin=dump(manifests))


@pytest.fixture(scope="module")
def operator(policed: ControlPlane) -> Hands:
    """Return a client with the operator's identity."""
    return Hands(policed, ACCOUNT)


@pytest.fixture(scope="module")
def somebody(policed: ControlPlane) -> Hands:
    """Return a client with an administrator's identity."""
    return Hands(policed, None)


@pytest.mark.parametrize("sample", services())
def test_objects_of_service_are_admitted(operator: Hands, sample: Manifest) -> None:
    desired = objects(sample)
    operator.create(*desired)
    operator.apply(*desired)


@pytest.mark.parametrize("sample", batches())
def test_objects_of_batch_are_admitted(operator: Hands, sample: Manifest) -> None:
    desired = of_batch(sample, MODELS)
    operator.create(*desired)
    operator.apply(*desired)


@pytest.mark.parametrize("sample", benchmarks())
def test_objects_of_benchmark_are_admitted(operator: Hands, sample: Manifest) -> None:
    desired = [*of_benchmark(sample, MODELS), of_a_report(sample)]
    operator.create(*desired)
    operator.apply(*desired)


@pytest.mark.parametrize("sample", servers())
def test_objects_of_model_server_are_admitted(operator: Hands, sample: Manifest) -> None:
    desired = of_server(sample, MODELS)
    operator.create(*desired)
    operator.apply(*desired)


@pytest.mark.parametrize("sample", applications())
def test_objects_of_application_are_admitted(operator: Hands, sample: Manifest) -> None:
    desired = of_application(sample, MODELS)
    operator.create(*desired)
    operator.apply(*desired)


def test_only_service_of_route_with_dedicated_address_is_admitted(operator: Hands) -> None:
    operator.create(of_a_route())
    operator.apply(of_a_route())
    other = of_gateway("ServiceAccount") | {"metadata": of_a_route()["metadata"]}
    other["metadata"]["name"] = "route.chat-sa"
    with pytest.raises(Denied, match="and a Service of an LLMRoute"):
        operator.create(other)


def test_the_gateway_is_admitted(operator: Hands) -> None:
    desired = gateway(MODELS, WORKLOADS, PLATFORM, {"keys", "more"})
    desired = [m for m in desired if m["kind"] != "RoleBinding"] + [of_gateway("RoleBinding")]
    operator.create(*desired)
    operator.apply(*desired)


@pytest.mark.parametrize("word", HOST)
@pytest.mark.parametrize("kind", ["RayService", "RayJob", "Job", "Deployment"])
def test_pod_with_host_access_is_denied_to_operator(
    operator: Hands, somebody: Hands, kind: str, word: str
) -> None:
    wrong = {"Deployment": of_gateway, "RayJob": of_the_batch}.get(kind, of_sample)(kind)
    HOST[word](wrong)
    with pytest.raises(Denied, match=rf"(?s){DENIED}.*{word}.*admissionPolicy\.allowHostAccess"):
        operator.create(wrong)
    somebody.create(wrong)


@pytest.mark.parametrize("what", WRONG)
def test_forbidden_object_is_denied_to_operator_only(operator: Hands, somebody: Hands, what: str) -> None:
    make, change, message = WRONG[what]
    right, wrong = make(), make()
    change(wrong)
    operator.create(right)
    with pytest.raises(Denied, match=rf"(?s){DENIED}.*{message}"):
        operator.create(wrong)
    somebody.create(wrong)


@pytest.fixture
def with_rights(policed: ControlPlane) -> Iterator[Callable[[str, str], str]]:
    """Makes a ServiceAccount that may do one thing in the namespace. Returns its name."""
    made: list[Manifest] = []
    hands = Hands(policed, None, kept=True)

    def give(verb: str, resource: str) -> str:
        name = f"may-{verb}-{resource.partition('.')[0]}"
        resource, _, group = resource.partition(".")
        metadata = {"name": name, "namespace": MODELS}
        rule = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
        api = "rbac.authorization.k8s.io"
        role = {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]}
        binding = {
            "apiVersion": f"{api}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": MODELS}],
        }
        hands.apply(role, binding)
        made.extend([role, binding])
        return name

    yield give
    remove(hands, made)


@pytest.mark.parametrize(
    ("verb", "resource"),
    [("list", "secrets"), ("create", "pods"), ("create", "jobs.batch"), ("create", "deployments.apps")],
)
@pytest.mark.parametrize("kind", ["RayService", "Job"])
def test_pod_with_privileged_service_account_is_denied(
    operator: Hands, with_rights: Callable[[str, str], str], kind: str, verb: str, resource: str
) -> None:
    """By them it could become whatever a pod of the namespace can be."""
    account, wrong = with_rights(verb, resource), of_sample(kind)
    for spec in (pod(wrong), *([head(wrong)] if kind == "RayService" else [])):
        spec["serviceAccountName"] = account
    if kind == "RayService":
        for group in wrong["spec"]["rayClusterConfig"]["workerGroupSpecs"]:
            group["template"]["spec"]["serviceAccountName"] = account

    def attempt() -> None:
        operator.create(wrong)

    until(True, attempt)  # the authorizer, too, reads roles from a watch
    with pytest.raises(Denied, match=rf"{DENIED}.*admissionPolicy\.serviceAccountNames"):
        attempt()


def test_pod_with_service_account_of_operator_is_denied(operator: Hands) -> None:
    wrong = of_sample("Job")
    wrong["metadata"]["namespace"] = NAMESPACE
    pod(wrong)["serviceAccountName"] = "daybreak"
    with pytest.raises(Denied, match=f"{DENIED}.*ServiceAccount"):
        operator.create(wrong)


@pytest.fixture
def live(policed: ControlPlane) -> Iterator[Callable[[Manifest], None]]:
    """Puts objects on the API server, in an administrator's name."""
    made: list[Manifest] = []
    hands = Hands(policed, None, kept=True)

    def put(manifest: Manifest) -> None:
        hands.apply(manifest)
        made.append(manifest)

    yield put
    remove(hands, made)


def remove(hands: Hands, made: list[Manifest]) -> None:
    """Delete objects."""
    for manifest in made:
        hands.delete(manifest["kind"], manifest["metadata"]["namespace"], manifest["metadata"]["name"])


def test_operator_may_not_change_or_delete_foreign_objects(
    operator: Hands, live: Callable[[Manifest], None]
) -> None:
    foreign = foreign_service()
    live(foreign)
    ours = of_sample("Service")
    taken = {**ours, "metadata": {**ours["metadata"], "name": "foreign"}}
    taken["metadata"]["ownerReferences"] = [{**ours["metadata"]["ownerReferences"][0], "name": "foreign"}]
    with pytest.raises(Denied, match=f"{DENIED}.*only objects that are Daybreak's"):
        operator.apply(taken)
    with pytest.raises(Denied, match=f"{DENIED}.*only objects that are Daybreak's"):
        operator.delete("Service", MODELS, "foreign")


def test_operator_may_repair_and_delete_its_own_objects(
    operator: Hands, live: Callable[[Manifest], None]
) -> None:
    """Whatever was done to its labels, as long as it has its owner; or the other way round."""
    ours = of_sample("Service")
    stripped = copy.deepcopy(ours)
    stripped["metadata"].pop("labels")
    live(stripped)
    operator.patch(
        "Service", MODELS, "everything", {"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}
    )
    operator.apply(ours)
    operator.delete("Service", MODELS, "everything")
    orphan = of_sample("NetworkPolicy")
    orphan["metadata"].pop("ownerReferences")
    live(orphan)
    operator.apply(of_sample("NetworkPolicy"))
    operator.delete("NetworkPolicy", MODELS, "everything-ray")


def test_operator_may_update_old_gateway_to_current_images_only(
    operator: Hands, live: Callable[[Manifest], None]
) -> None:
    """Before its first server-side apply the operator hands the fields over, with the pods as they are."""
    old = of_gateway("Deployment")
    old["spec"]["template"]["spec"]["containers"][0]["image"] = "daybreak-gateway:before"
    # As it was when it had one container: with the keys and the token.
    _, agent = old["spec"]["template"]["spec"]["containers"]
    old["spec"]["template"]["spec"]["automountServiceAccountToken"] = True
    old["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = agent["volumeMounts"]
    old["spec"]["template"]["spec"]["containers"].remove(agent)
    live(old)
    name = old["metadata"]["name"]
    operator.patch(
        "Deployment", MODELS, name, {"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}
    )
    operator.apply(of_gateway("Deployment"))
    image = "/spec/template/spec/containers/0/image"
    # Another template is judged as a whole: its image, and the token that all its containers had.
    with pytest.raises(Denied, match=f"{DENIED}(.*another image|automountServiceAccountToken)"):
        operator.patch("Deployment", MODELS, name, {"op": "replace", "path": image, "value": "miner:1"})


def test_operator_may_change_only_bounds_of_ray_cluster(
    operator: Hands, somebody: Hands, live: Callable[[Manifest], None]
) -> None:
    service = of_sample("RayService")
    owner = {"apiVersion": "ray.io/v1", "kind": "RayService", "name": "everything", "uid": "1-1"}
    metadata = {
        "name": "everything-abcde",
        "namespace": MODELS,
        "labels": service["metadata"]["labels"],
        "ownerReferences": [owner | {"controller": True}],
    }
    spec = service["spec"]["rayClusterConfig"]
    cluster = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec}
    live(cluster)
    group, name = "/spec/workerGroupSpecs/0", metadata["name"]
    bounds = [
        {"op": "add", "path": f"{group}/minReplicas", "value": 0},
        {"op": "add", "path": f"{group}/maxReplicas", "value": 9},
    ]
    operator.patch("RayCluster", MODELS, name, *bounds)
    image = f"{group}/template/spec/containers/0/image"
    for path, value in (
        (image, "evil:1"),
        (f"{group}/replicas", 7),
        ("/spec/headGroupSpec/template/spec/hostPID", True),
        ("/spec/suspend", True),
        ("/metadata/labels/a", "b"),
    ):
        wrong = {"op": "add", "path": path, "value": value}
        with pytest.raises(Denied, match=f"{DENIED}.*RayCluster"):
            operator.patch("RayCluster", MODELS, name, *bounds, wrong)
        somebody.patch("RayCluster", MODELS, name, wrong)
    with pytest.raises(Denied, match=f"{DENIED}.*RayCluster"):
        operator.patch("RayCluster", MODELS, name, {"op": "remove", "path": f"{group}"})
    operator.delete("RayCluster", MODELS, name)


def test_operator_may_not_delete_foreign_ray_cluster(
    operator: Hands, live: Callable[[Manifest], None]
) -> None:
    """Whatever label it bears: one that was replaced is a RayService's."""
    service = of_sample("RayService")
    metadata = {"name": "theirs", "namespace": MODELS, "labels": service["metadata"]["labels"]}
    spec = service["spec"]["rayClusterConfig"]
    live({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec})
    with pytest.raises(Denied, match=f"{DENIED}.*RayCluster"):
        operator.delete("RayCluster", MODELS, "theirs")


def test_allow_host_access_value_admits_pod_with_host_access(
    policed: ControlPlane, helm: Helm, rendered: list[Manifest], operator: Hands
) -> None:
    wrong = of_sample("RayService")
    for change in HOST.values():
        change(wrong)

    def attempt() -> None:
        operator.create(wrong)

    enforced(policed, helm.template("--set", "admissionPolicy.allowHostAccess=true"))
    until(False, attempt)
    attempt()
    enforced(policed, rendered)
    until(True, attempt)


def test_listed_service_account_is_admitted(
    policed: ControlPlane,
    helm: Helm,
    rendered: list[Manifest],
    operator: Hands,
    with_rights: Callable[[str, str], str],
) -> None:
    account, job = with_rights("list", "secrets"), of_sample("Job")
    pod(job)["serviceAccountName"] = account

    def attempt() -> None:
        operator.create(job)

    until(True, attempt)
    enforced(policed, helm.template("--set", f"admissionPolicy.serviceAccountNames[0]={account}"))
    until(False, attempt)
    attempt()
    enforced(policed, rendered)
    until(True, attempt)
