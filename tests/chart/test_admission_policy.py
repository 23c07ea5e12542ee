"""The admission policy bounds the operator's identity, and nobody else: asked of the real API server.

Requests are made in the name of the chart's ServiceAccount and with its rights, as server-side dry-runs:
admission judges them, and nothing is kept.
"""

import copy
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster import ControlPlane
from daybreak.api.common import names
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.llmroute.definition import LLMRoute
from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.llmservice.definition import LLMService
from daybreak.assembly import KINDS, WORKLOADS
from daybreak.gateways.objects import gateway
from daybreak.kinds.llmbenchmark.objects.report_map import report_map
from daybreak.kinds.llmroute.decide.plan import own_service
from daybreak.kinds.llmservice.objects.desired import desired
from daybreak.kinds.llmservice.objects.revisions import controller_revision, with_own
from tests.chart.hands import Denied, Hands
from tests.chart.tools import NAMESPACE, Helm, Manifest, dump, of_kind, one
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
from tests.unit.llmroute.routes import route

pytestmark = pytest.mark.xdist_group("chart-plane")

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:daybreak"
MODELS = "policy-models"
"""Namespace of the services."""
WITH_ROLE = "policy-bindings"
"""Namespace where the gateway's Role is: Kubernetes binds only those that are there."""
RIGHTS = {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}
POLICY = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
DENIED = "denied request: "

Change = Callable[[dict[str, Any]], object]


def objects(manifest: Manifest) -> list[Manifest]:
    """What the operator writes for an LLMService, Jobs included."""
    metadata = {"uid": "0-0", **manifest["metadata"], "namespace": MODELS}
    svc = LLMService.from_manifest({**manifest, "metadata": metadata})
    unfilled = [model.name for model in svc.spec.models]
    others = desired(svc, PLATFORM, f"{svc.name}-abcde", names.GATEWAY_PORTS[0], unfilled=unfilled)
    return [controller_revision(svc, with_own(svc, ())[0]), *others]


def of_sample(kind: str) -> Manifest:
    """An object of the service that sets everything."""
    (everything,) = (p.values[0] for p in services() if p.values[0]["metadata"]["name"] == "everything")
    return copy.deepcopy(of_kind(objects(everything), kind)[0])


def of_the_batch(kind: str) -> Manifest:
    """An object of the batch of the samples."""
    return copy.deepcopy(of_kind(of_batch(batches()[0].values[0], MODELS), kind)[0])


def of_the_benchmark(kind: str) -> Manifest:
    """An object of a benchmark of the samples."""
    return copy.deepcopy(of_kind(of_benchmark(benchmarks()[0].values[0], MODELS), kind)[0])


def of_a_report(sample: Manifest) -> Manifest:
    """The ConfigMap with the report of a benchmark."""
    metadata = {"uid": "0-0", **sample["metadata"], "namespace": MODELS}
    return report_map(LLMBenchmark.from_manifest({**sample, "metadata": metadata}), {"report.html": "<p>"})


def of_the_server(kind: str) -> Manifest:
    """An object of a ModelServer of the samples."""
    return copy.deepcopy(of_kind(of_server(servers()[0].values[0], MODELS), kind)[0])


def of_several_nodes() -> Manifest:
    """The LeaderWorkerSet of a ModelServer of the samples."""
    [found] = [one.values[0] for one in servers() if one.values[0]["spec"].get("nodes")]
    return copy.deepcopy(of_kind(of_server(found, MODELS), "LeaderWorkerSet")[0])


def of_the_application(kind: str) -> Manifest:
    """An object of a ServeApplication of the samples."""
    return copy.deepcopy(of_kind(of_application(applications()[0].values[0], MODELS), kind)[0])


def of_a_route() -> Manifest:
    """The own Service of an LLMRoute."""
    manifest = route("chat", address="Own")
    metadata = {**manifest["metadata"], "uid": "0-0", "namespace": MODELS}
    return own_service(LLMRoute.from_manifest({**manifest, "metadata": metadata}), 19000)


def of_gateway(kind: str) -> Manifest:
    """An object of the gateway with a Secret of keys."""
    namespace = WITH_ROLE if kind == "RoleBinding" else MODELS
    objects = gateway(namespace, WORKLOADS, PLATFORM, {"keys"}, [LLM_ROUTES])
    return copy.deepcopy(of_kind(objects, kind)[0])


def account_of_pods() -> Manifest:
    """The ServiceAccount that the operator makes."""
    sample = next(p.values[0] for p in services() if "serviceAccountName" not in json.dumps(p.values[0]))
    return copy.deepcopy(one(objects(sample), "ServiceAccount"))


def enforced(plane: ControlPlane, rendered: list[Manifest]) -> list[Manifest]:
    """The operator's rights and the policy, on the API server. Returns what was applied."""
    manifests = [m for m in rendered if m["kind"] in RIGHTS | POLICY]
    plane.apply(dump(manifests))
    return manifests


def until(denied: bool, attempt: Callable[[], object]) -> None:
    """Wait until the API server has heard of the policy, or of its change: it reads them from a watch."""
    deadline = time.monotonic() + 30
    while True:
        try:
            attempt()
            found = False
        except Denied as error:
            found = DENIED in str(error)
        if found == denied:
            return
        assert time.monotonic() < deadline, "the API server does not act by the policy"
        time.sleep(0.2)


def foreign_service() -> Manifest:
    """A Service that is nobody's."""
    spec = {"selector": {"app": "x"}, "ports": [{"port": 80}]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "foreign", "namespace": MODELS},
        "spec": spec,
    }


@pytest.fixture(scope="module")
def policed(plane: ControlPlane, rendered: list[Manifest]) -> Iterator[ControlPlane]:
    """The API server with the chart's policy, by default values."""
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
    """Requests in the operator's name."""
    return Hands(policed, ACCOUNT)


@pytest.fixture(scope="module")
def somebody(policed: ControlPlane) -> Hands:
    """Requests of an administrator."""
    return Hands(policed, None)


@pytest.mark.parametrize("sample", services())
def test_what_the_operator_writes_for_a_service_is_admitted(operator: Hands, sample: Manifest) -> None:
    wanted = objects(sample)
    operator.create(*wanted)
    operator.apply(*wanted)


@pytest.mark.parametrize("sample", batches())
def test_what_the_operator_writes_for_a_batch_is_admitted(operator: Hands, sample: Manifest) -> None:
    wanted = of_batch(sample, MODELS)
    operator.create(*wanted)
    operator.apply(*wanted)


@pytest.mark.parametrize("sample", benchmarks())
def test_what_the_operator_writes_for_a_benchmark_is_admitted(operator: Hands, sample: Manifest) -> None:
    wanted = [*of_benchmark(sample, MODELS), of_a_report(sample)]
    operator.create(*wanted)
    operator.apply(*wanted)


@pytest.mark.parametrize("sample", servers())
def test_what_the_operator_writes_for_a_model_server_is_admitted(operator: Hands, sample: Manifest) -> None:
    wanted = of_server(sample, MODELS)
    operator.create(*wanted)
    operator.apply(*wanted)


@pytest.mark.parametrize("sample", applications())
def test_what_the_operator_writes_for_an_application_is_admitted(operator: Hands, sample: Manifest) -> None:
    wanted = of_application(sample, MODELS)
    operator.create(*wanted)
    operator.apply(*wanted)


def test_the_own_address_of_a_route_is_admitted(operator: Hands) -> None:
    operator.create(of_a_route())
    operator.apply(of_a_route())
    other = of_gateway("ServiceAccount") | {"metadata": of_a_route()["metadata"]}
    other["metadata"]["name"] = "route.chat-sa"
    with pytest.raises(Denied, match="and a Service of an LLMRoute"):
        operator.create(other)


def test_the_gateway_is_admitted(operator: Hands) -> None:
    wanted = gateway(MODELS, WORKLOADS, PLATFORM, {"keys", "more"})
    wanted = [m for m in wanted if m["kind"] != "RoleBinding"] + [of_gateway("RoleBinding")]
    operator.create(*wanted)
    operator.apply(*wanted)


CLUSTERS = {"RayService": "rayClusterConfig", "RayJob": "rayClusterSpec"}
"""Where the configuration of a Ray cluster stands."""


def pod(manifest: Manifest) -> dict[str, Any]:
    """The pod that an object makes, of a Ray cluster its last worker group's."""
    if manifest["kind"] in CLUSTERS:
        manifest = manifest["spec"][CLUSTERS[manifest["kind"]]]["workerGroupSpecs"][-1]
        found: dict[str, Any] = manifest["template"]["spec"]
        return found
    found = manifest["spec"]["template"]["spec"]
    return found


def head(manifest: Manifest) -> dict[str, Any]:
    """The head's pod of a RayService."""
    found: dict[str, Any] = manifest["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]
    return found


def add(security: dict[str, Any]) -> Change:
    """Give the last container of the pod something in its securityContext."""
    return lambda m: pod(m)["containers"][-1].setdefault("securityContext", {}).update(security)


HOST_PATH = {"name": "host", "hostPath": {"path": "/etc"}}
HOST = {
    "hostPath": lambda m: pod(m).setdefault("volumes", []).append(HOST_PATH),
    "hostNetwork": lambda m: pod(m).update(hostNetwork=True),
    "hostPID": lambda m: pod(m).update(hostPID=True),
    "hostIPC": lambda m: pod(m).update(hostIPC=True),
    "hostPort": lambda m: pod(m)["containers"][-1].update(ports=[{"containerPort": 99, "hostPort": 99}]),
    "privileged": lambda m: pod(m).update(
        initContainers=[{"name": "x", "image": "x", "securityContext": {"privileged": True}}]
    ),
    "capabilities": add({"capabilities": {"add": ["SYS_ADMIN"]}, "allowPrivilegeEscalation": True}),
}
"""What reaches a node, by what the message says of it."""


@pytest.mark.parametrize("word", HOST)
@pytest.mark.parametrize("kind", ["RayService", "RayJob", "Job", "Deployment"])
def test_no_pod_reaches_its_node(operator: Hands, somebody: Hands, kind: str, word: str) -> None:
    wrong = {"Deployment": of_gateway, "RayJob": of_the_batch}.get(kind, of_sample)(kind)
    HOST[word](wrong)
    with pytest.raises(Denied, match=rf"(?s){DENIED}.*{word}.*admissionPolicy\.allowHostAccess"):
        operator.create(wrong)
    somebody.create(wrong)


WRONG: dict[str, tuple[Callable[[], Manifest], Change, str]] = {
    "a route's Service of another name": (
        of_a_route,
        lambda m: m["metadata"].update(name="other"),
        "and a Service of an LLMRoute",
    ),
    "a route's Service with the gateway's name": (
        of_a_route,
        lambda m: (m["metadata"].update(name="llm"), m["metadata"]["ownerReferences"][0].update(name="llm")),
        "and a Service of an LLMRoute",
    ),
    "the head on a path of the node": (
        lambda: of_sample("RayService"),
        lambda m: head(m)["volumes"].append(HOST_PATH),
        "hostPath",
    ),
    "a job of another cluster": (
        lambda: of_the_batch("RayJob"),
        lambda m: m["spec"].update(clusterSelector={"ray.io/cluster": "other"}),
        "Ray cluster of its own",
    ),
    "another program": (
        lambda: of_the_batch("RayJob"),
        lambda m: m["spec"].update(entrypoint="bash"),
        "runs daybreak_runtime",
    ),
    "a job with a pod that submits it": (
        lambda: of_the_batch("RayJob"),
        lambda m: m["spec"].update(submissionMode="K8sJobMode"),
        "submitted over HTTP",
    ),
    "a job of another name": (
        lambda: of_the_batch("RayJob"),
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "a job without its token": (
        lambda: of_the_batch("RayJob"),
        lambda m: m["spec"]["rayClusterSpec"].pop("authOptions"),
        "authOptions",
    ),
    "a benchmark's Job of another name": (
        lambda: of_the_benchmark("Job"),
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "a benchmark's Job with another program": (
        lambda: of_the_benchmark("Job"),
        lambda m: m["spec"]["template"]["spec"]["containers"][0].update(command=["bash"]),
        "runs daybreak_runtime.benchmark",
    ),
    "a ConfigMap of another name": (
        lambda: of_a_report(benchmarks()[0].values[0]),
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "a ConfigMap of a service": (
        lambda: of_a_report(benchmarks()[0].values[0]),
        lambda m: m["metadata"]["ownerReferences"][0].update(kind="LLMService"),
        "named after",
    ),
    "a ModelServer's Deployment of another name": (
        lambda: of_the_server("Deployment"),
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "a ModelServer's Service of another name": (
        lambda: of_the_server("Service"),
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "a ModelServer's LeaderWorkerSet of another name": (
        of_several_nodes,
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "a service's LeaderWorkerSet": (
        of_several_nodes,
        lambda m: m["metadata"]["ownerReferences"][0].update(kind="LLMService"),
        "so are LeaderWorkerSets",
    ),
    "workers of a LeaderWorkerSet with a host's path": (
        of_several_nodes,
        lambda m: m["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["volumes"].append(
            {"name": "host", "hostPath": {"path": "/etc"}}
        ),
        "hostPath",
    ),
    "workers of a LeaderWorkerSet with an account of their own": (
        of_several_nodes,
        lambda m: m["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"].update(
            serviceAccountName="other"
        ),
        "have one ServiceAccount",
    ),
    "an application's RayService of another name": (
        lambda: of_the_application("RayService"),
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "an application that owns a Deployment": (
        lambda: of_the_server("Deployment"),
        lambda m: m["metadata"]["ownerReferences"][0].update(kind="ServeApplication"),
        "Deployment of a ModelServer",
    ),
    "a ModelServer that owns a RayService": (
        lambda: of_sample("RayService"),
        lambda m: m["metadata"]["ownerReferences"][0].update(kind="ModelServer"),
        "named after",
    ),
    "a ModelServer's pods with the gateway's account": (
        lambda: of_the_server("Deployment"),
        lambda m: m["spec"]["template"]["spec"].update(automountServiceAccountToken=True),
        "automountServiceAccountToken",
    ),
    "a ModelServer's pods with a host's path": (
        lambda: of_the_server("Deployment"),
        lambda m: m["spec"]["template"]["spec"]["volumes"].append(
            {"name": "host", "hostPath": {"path": "/etc"}}
        ),
        "hostPath",
    ),
    "a batch that owns a RayService": (
        lambda: of_sample("RayService"),
        lambda m: m["metadata"]["ownerReferences"][0].update(kind="LLMBatch"),
        "named after",
    ),
    "a policy for a service's pods": (
        lambda: of_the_batch("NetworkPolicy"),
        lambda m: m["spec"]["podSelector"]["matchLabels"].update({names.SERVICE_LABEL: "everything"}),
        "selects pods of its own",
    ),
    "no label": (
        lambda: of_sample("Service"),
        lambda m: m["metadata"]["labels"].pop(names.MANAGED_BY_LABEL),
        "managed-by",
    ),
    "no owner": (
        lambda: of_sample("RayService"),
        lambda m: m["metadata"].pop("ownerReferences"),
        "controlled by an LLMService",
    ),
    "an owner that does not control": (
        lambda: of_sample("Service"),
        lambda m: m["metadata"]["ownerReferences"][0].update(controller=False),
        "controlled by an LLMService",
    ),
    "an owner of another kind": (
        lambda: of_sample("Job"),
        lambda m: m["metadata"]["ownerReferences"][0].update(apiVersion="v1", kind="ConfigMap"),
        "controlled by an LLMService",
    ),
    "another Deployment": (
        lambda: of_gateway("Deployment"),
        lambda m: m["metadata"].update(name="mine"),
        "controlled by an LLMService",
    ),
    "a Deployment of a service": (
        lambda: of_gateway("Deployment"),
        lambda m: m["metadata"].update(
            name="mine", ownerReferences=of_sample("Service")["metadata"]["ownerReferences"]
        ),
        "are the gateway's",
    ),
    "another name": (
        lambda: of_sample("Service"),
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "another image": (
        lambda: of_gateway("Deployment"),
        lambda m: pod(m)["containers"][0].update(image="evil:1"),
        "image",
    ),
    "one more container of the gateway": (
        lambda: of_gateway("Deployment"),
        lambda m: pod(m).update(initContainers=[{"name": "x", "image": "evil:1"}]),
        "image",
    ),
    "another account of the gateway": (
        lambda: of_gateway("Deployment"),
        lambda m: pod(m).update(serviceAccountName="default"),
        "ServiceAccount",
    ),
    "the gateway's token in all its containers": (
        lambda: of_gateway("Deployment"),
        lambda m: pod(m).update(automountServiceAccountToken=True),
        "automountServiceAccountToken",
    ),
    "the gateway's token in HAProxy's container": (
        lambda: of_gateway("Deployment"),
        lambda m: pod(m)["containers"][0].update(volumeMounts=pod(m)["containers"][1]["volumeMounts"][1:2]),
        "HAProxy's container",
    ),
    "API keys in HAProxy's container": (
        lambda: of_gateway("Deployment"),
        lambda m: pod(m)["containers"][0].update(volumeMounts=pod(m)["containers"][1]["volumeMounts"][-1:]),
        "HAProxy's container",
    ),
    "pods of two accounts": (
        lambda: of_sample("RayService"),
        lambda m: head(m).update(serviceAccountName="other"),
        "one ServiceAccount",
    ),
    "no account": (
        lambda: of_sample("Job"),
        lambda m: pod(m).pop("serviceAccountName"),
        "one ServiceAccount",
    ),
    "a token in a Job": (
        lambda: of_sample("Job"),
        lambda m: pod(m).pop("automountServiceAccountToken"),
        "automountServiceAccountToken",
    ),
    "a token in Ray": (
        lambda: of_sample("RayService"),
        lambda m: head(m).update(automountServiceAccountToken=True),
        "automountServiceAccountToken",
    ),
    "a token in an account": (
        account_of_pods,
        lambda m: m.update(automountServiceAccountToken=True),
        "automountServiceAccountToken",
    ),
    "a Secret in an account": (
        account_of_pods,
        lambda m: m.update(imagePullSecrets=[{"name": "hub"}]),
        "Secrets",
    ),
    "Ray without its token": (
        lambda: of_sample("RayService"),
        lambda m: m["spec"]["rayClusterConfig"].pop("authOptions"),
        "authOptions",
    ),
    "another image of the autoscaler": (
        lambda: of_sample("RayService"),
        lambda m: m["spec"]["rayClusterConfig"]["autoscalerOptions"].update(image="evil:1"),
        "autoscaler",
    ),
    "a privileged autoscaler": (
        lambda: of_sample("RayService"),
        lambda m: m["spec"]["rayClusterConfig"]["autoscalerOptions"].update(
            securityContext={"privileged": True}
        ),
        "autoscaler",
    ),
    "an address outside of the cluster": (
        lambda: of_sample("Service"),
        lambda m: m["spec"].update(externalIPs=["192.0.2.1"]),
        "ClusterIP",
    ),
    "a load balancer": (
        lambda: of_gateway("Service"),
        lambda m: m["spec"].update(type="LoadBalancer"),
        "ClusterIP",
    ),
    "a load balancer of KubeRay's": (
        lambda: of_sample("RayService"),
        lambda m: m["spec"].update(serveService={"spec": {"type": "LoadBalancer"}}),
        "ClusterIP",
    ),
    "a policy for other pods": (
        lambda: of_sample("NetworkPolicy"),
        lambda m: m["spec"].update(podSelector={}),
        "selects",
    ),
    "a policy of the gateway for other pods": (
        lambda: of_gateway("NetworkPolicy"),
        lambda m: m["spec"].update(podSelector={"matchLabels": {"app": "x"}}),
        "selects",
    ),
    "a budget for other pods": (
        lambda: of_sample("PodDisruptionBudget"),
        lambda m: m["spec"].update(selector={}),
        "selects",
    ),
    "another Role": (
        lambda: of_gateway("Role"),
        lambda m: m["metadata"].update(name="mine"),
        "controlled by an LLMService",
    ),
    "a Role that writes": (
        lambda: of_gateway("Role"),
        lambda m: m["rules"].append(
            {"apiGroups": ["ray.io"], "resources": ["rayservices"], "verbs": ["create"]}
        ),
        "Role",
    ),
    "a Role that reads more": (
        lambda: of_gateway("Role"),
        lambda m: m["rules"][1]["resources"].append("services"),
        "Role",
    ),
    "a Role that reads others of ours": (
        lambda: of_gateway("Role"),
        lambda m: m["rules"][0]["resources"].append("llmbatches"),
        "Role",
    ),
    "a binding of somebody else": (
        lambda: of_gateway("RoleBinding"),
        lambda m: m["subjects"][0].update(name="default"),
        "RoleBinding",
    ),
    "a binding of a user": (
        lambda: of_gateway("RoleBinding"),
        lambda m: m["subjects"].append(
            {"kind": "User", "name": "ada", "apiGroup": "rbac.authorization.k8s.io"}
        ),
        "RoleBinding",
    ),
    "a binding to a ClusterRole": (
        lambda: of_gateway("RoleBinding"),
        lambda m: m["roleRef"].update(kind="ClusterRole", name="daybreak"),
        "RoleBinding",
    ),
}
"""Objects that the operator never writes, and a word of what the policy says of each."""


@pytest.mark.parametrize("what", WRONG)
def test_what_is_not_the_operators_is_refused(operator: Hands, somebody: Hands, what: str) -> None:
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
def test_no_pod_gets_an_account_with_rights(
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


def test_the_operators_own_account_is_for_no_pod(operator: Hands) -> None:
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


def test_objects_of_others_are_neither_changed_nor_deleted(
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


def test_what_is_its_own_is_mended_and_deleted(operator: Hands, live: Callable[[Manifest], None]) -> None:
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


def test_a_gateway_of_before_is_brought_to_the_images_of_now(
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


def test_a_ray_cluster_gets_bounds_and_nothing_else(
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


def test_a_ray_cluster_of_somebody_is_not_deleted(operator: Hands, live: Callable[[Manifest], None]) -> None:
    """Whatever label it bears: one that was replaced is a RayService's."""
    service = of_sample("RayService")
    metadata = {"name": "theirs", "namespace": MODELS, "labels": service["metadata"]["labels"]}
    spec = service["spec"]["rayClusterConfig"]
    live({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec})
    with pytest.raises(Denied, match=f"{DENIED}.*RayCluster"):
        operator.delete("RayCluster", MODELS, "theirs")


def test_values_open_it(policed: ControlPlane, helm: Helm, rendered: list[Manifest], operator: Hands) -> None:
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


def test_named_accounts_are_left_to_the_installation(
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


def policies(helm: Helm, *options: str) -> list[Manifest]:
    """The policies and bindings that are rendered."""
    return [m for m in helm.template(*options) if m["kind"] in POLICY]


def test_it_is_there_by_default_and_can_be_left_out(helm: Helm) -> None:
    assert len(policies(helm)) == 4
    assert not policies(helm, "--set", "admissionPolicy.enabled=false")
    assert len(policies(helm, "--set", "watch.namespaces={one,two}")) == 4
    assert not policies(helm, "--set", "watch.namespaced=true")  # nothing of the cluster's scope
    assert not policies(helm, "--set", "watch.namespaced=true,watch.namespaces={one,two}")


def test_a_cluster_that_does_not_serve_it_gets_none(helm: Helm) -> None:
    """What a cluster serves is known with its kinds; without a cluster only the version is."""
    served = ("--api-versions", "v1/Pod")
    kind = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
    assert not policies(helm, *served)
    assert len(policies(helm, *served, "--api-versions", kind)) == 4


def test_it_is_about_the_operators_account_alone(helm: Helm) -> None:
    found = policies(helm, "--set", "serviceAccount.name=mine")
    for policy in of_kind(found, "ValidatingAdmissionPolicy"):
        assert policy["spec"]["failurePolicy"] == "Fail"
        [condition] = policy["spec"]["matchConditions"]
        assert condition["expression"] == (
            f"request.userInfo.username == 'system:serviceaccount:{NAMESPACE}:mine'"
        )
    for binding in of_kind(found, "ValidatingAdmissionPolicyBinding"):
        assert binding["spec"]["validationActions"] == ["Deny"]


def test_the_gateways_images_are_those_of_the_values(helm: Helm) -> None:
    more = {"containers": [{"name": "logs", "image": "r.example/logs:1"}, {"name": "gateway"}]}
    more["initContainers"] = [{"name": "first", "image": "r.example/first:1"}]
    set_json = f"gateway.podTemplate={json.dumps({'spec': more})}"
    found = policies(helm, "--set", "gateway.image=r.example/g:1", "--set-json", set_json)
    images = of_kind(found, "ValidatingAdmissionPolicy")[0]["spec"]["variables"][0]
    assert images["name"] == "gatewayImages"
    assert json.loads(images["expression"]) == ["r.example/g:1", "r.example/logs:1", "r.example/first:1"]


def test_it_covers_all_that_the_operator_may_write(rendered: list[Manifest]) -> None:
    """But for what RBAC alone bounds: a status, events, reviews of tokens, and the operator's own Lease."""
    (role,) = (m for m in of_kind(rendered, "ClusterRole") if m["metadata"]["name"] == "daybreak")
    writes = {"create", "update", "patch"}
    written = {
        (group, resource)
        for rule in role["rules"]
        if writes & set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    for plural in (each.plural for each in KINDS):
        written -= {("daybreak.dev", f"{plural}/status"), ("daybreak.dev", f"{plural}/finalizers")}
    written -= {("events.k8s.io", "events"), ("authentication.k8s.io", "tokenreviews")}
    for policy in of_kind(rendered, "ValidatingAdmissionPolicy"):
        covered = {
            (group, resource)
            for rule in policy["spec"]["matchConstraints"]["resourceRules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        }
        assert covered == written
