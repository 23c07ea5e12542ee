"""The chart, the base and Argo CD's manifests on a real API server with the real CRDs of all projects.

Server-side dry-run with strict field validation is the check here: the API server knows every field, every
default and every rule of this Kubernetes, and refuses what a schema alone would let pass. test_kubeconform.py
checks the same files with kubeconform, against the schemas that this API server publishes.
"""

import copy
import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from cluster import ClusterError, ControlPlane
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.schema.resource import GROUP
from scripts.manifests import argocd
from tests.chart.api_server import await_crds_gone, make_namespace, would_accept
from tests.chart.tools import CHART, EVERYTHING, NAMESPACE, ROOT, Helm, Manifest, dump, load, one

pytestmark = pytest.mark.xdist_group("chart-plane")

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:daybreak"
ARGOCD = ROOT / "manifests" / "argocd"


@pytest.mark.parametrize("options", [(), ("--values", str(EVERYTHING))], ids=["default", "everything"])
def test_every_object_is_accepted(plane: ControlPlane, helm: Helm, options: tuple[str, ...]) -> None:
    for name in (NAMESPACE, *yaml.safe_load(EVERYTHING.read_text())["watch"]["namespaces"]):
        make_namespace(plane, name)
    manifests = helm.template(*options)
    report = would_accept(plane, manifests)
    assert len(report.splitlines()) == len(manifests)


def test_api_server_rejects_unknown_field(plane: ControlPlane, rendered: list[Manifest]) -> None:
    wrong = copy.deepcopy(one(rendered, "Deployment"))
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    make_namespace(plane, NAMESPACE)
    with pytest.raises(ClusterError, match="livenesProbe"):
        would_accept(plane, [wrong])


@pytest.mark.parametrize("options", [(), ("--values", str(EVERYTHING))], ids=["default", "everything"])
def test_pod_runs_under_the_restricted_standard(
    plane: ControlPlane, helm: Helm, options: tuple[str, ...]
) -> None:
    """The API server's own admission judges the pod, in a namespace that enforces `restricted`."""
    make_namespace(plane, "restricted", **{"pod-security.kubernetes.io/enforce": "restricted"})
    manifests = helm.template(*options, "--set", "prePull.enabled=true")
    pulling = one(manifests, "DaemonSet")["spec"]["template"]
    # These must exist for a pod to be taken.
    pulling["spec"].pop("priorityClassName", None)
    metadata = {**pulling["metadata"], "name": "pulling", "namespace": "restricted"}
    would_accept(plane, [{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pulling["spec"]}])
    template = one(manifests, "Deployment")["spec"]["template"]
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": "operator", "namespace": "restricted"},
        "spec": template["spec"],
    }
    would_accept(plane, [pod])
    for weaken in ("runAsNonRoot", "seccompProfile"):
        weaker = copy.deepcopy(pod)
        del weaker["spec"]["securityContext"][weaken]
        with pytest.raises(ClusterError, match="violates PodSecurity"):
            would_accept(plane, [weaker])


@pytest.mark.usefixtures("without_crds")
def test_kustomize_base_can_be_applied_twice_and_deleted(plane: ControlPlane) -> None:
    base = str(ROOT / "manifests" / "base")
    for _ in range(2):
        plane.kubectl("apply", "--server-side", "-k", base)
    namespace = json.loads(plane.kubectl("get", "namespace", NAMESPACE, "-o", "json"))
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    plane.kubectl("get", "deployment/daybreak", "lease/daybreak-operator", "-n", NAMESPACE)
    # Without a controller manager the namespace never finishes going; everything in it does.
    built = [m for m in load(plane.kubectl("kustomize", base)) if m["kind"] != "Namespace"]
    plane.kubectl("delete", "--wait=false", "-f", "-", stdin=dump(built))
    await_crds_gone(plane)
    left = plane.kubectl("get", "-f", "-", "--ignore-not-found", "-o", "name", stdin=dump(built)).split()
    assert left == []


def test_operator_can_create_lease_only_by_apply(plane: ControlPlane, cluster_helm: Helm) -> None:
    """Rights by name: applying names the object, creating does not."""
    cluster_helm("install", "daybreak", CHART, "--namespace", NAMESPACE, "--set", "lease.create=false")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "daybreak-operator", "namespace": NAMESPACE},
        "spec": {"holderIdentity": "one"},
    }
    text = json.dumps(lease)
    with pytest.raises(ClusterError, match="forbidden"):
        plane.kubectl("create", f"--as={ACCOUNT}", "--validate=false", "-f", "-", stdin=text)
    apply = ("apply", "--server-side", f"--as={ACCOUNT}", "--validate=false", "-f", "-")
    plane.kubectl(*apply, stdin=text)
    other = text.replace("daybreak-operator", "kube-scheduler")
    with pytest.raises(ClusterError, match="forbidden"):
        plane.kubectl(*apply, stdin=other)
    plane.kubectl("delete", "lease", "daybreak-operator", "-n", NAMESPACE)


@dataclass(frozen=True)
class Action:
    """Something that the operator might want to do: a verb on `group/resource` in a namespace."""

    verb: str
    resource: str
    namespace: str

    def review(self) -> Manifest:
        """Return the review that is sent to the API server."""
        group, resource, subresource = "", self.resource, ""
        if "." in resource.partition("/")[0]:
            group, _, resource = resource.partition("/")
        resource, _, subresource = resource.partition("/")
        return {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": ACCOUNT,
                "groups": ["system:serviceaccounts", "system:authenticated"],
                "resourceAttributes": {
                    "verb": self.verb,
                    "group": group,
                    "resource": resource,
                    "subresource": subresource,
                    "namespace": self.namespace,
                },
            },
        }


@pytest.mark.parametrize("mode", ["cluster", "namespaced"])
def test_operator_has_only_expected_rights_in_each_mode(
    plane: ControlPlane, cluster_helm: Helm, mode: str
) -> None:
    """Asked of the API server's own authorizer, in the operator's name."""
    namespaced = "true" if mode == "namespaced" else "false"
    cluster_helm(
        "install", "daybreak", CHART, "--namespace", NAMESPACE, "--set", f"watch.namespaced={namespaced}"
    )
    everywhere = mode == "cluster"
    namespaces = (NAMESPACE, "models", "")
    expected = {
        Action("create", "ray.io/rayservices", NAMESPACE): True,
        Action("create", "ray.io/rayservices", "models"): everywhere,
        Action("list", "nodes", ""): everywhere,
    }
    for namespace in namespaces:
        for verb, resource in (
            ("get", "secrets"),
            ("list", "secrets"),
            ("create", "pods"),
            ("create", "pods/exec"),
            ("update", "daybreak.dev/llmservices"),
            ("patch", "daybreak.dev/llmservices"),
            ("patch", "daybreak.dev/llmbatches"),
            ("patch", "daybreak.dev/llmbenchmarks"),
            ("patch", "daybreak.dev/modelservers"),
            ("patch", "daybreak.dev/llmroutes"),
            ("patch", "rbac.authorization.k8s.io/roles"),
            ("deletecollection", "apps/deployments"),
            ("create", "rbac.authorization.k8s.io/clusterroles"),
        ):
            expected[Action(verb, resource, namespace)] = False
    reviews = plane.kubectl(
        "create",
        "-o",
        "json",
        "--validate=false",
        "-f",
        "-",
        stdin=dump([action.review() for action in expected]),
    )
    # kubectl prints one JSON document after another.
    answers = [
        allowed == "true" for allowed in re.findall(r'^ +"allowed": (true|false)', reviews, re.MULTILINE)
    ]
    assert dict(zip(expected, answers, strict=True)) == expected


def test_argo_cd_crd_accepts_applications_and_rejects_unknown_field(plane: ControlPlane) -> None:
    make_namespace(plane, "argocd")
    manifests = [yaml.safe_load(file.read_text()) for file in sorted(ARGOCD.glob("*.yaml"))]
    message = would_accept(plane, manifests)
    assert message.count("application.argoproj.io/") == 4
    wrong = copy.deepcopy(manifests)
    next(m for m in wrong if m["kind"] == "Application")["spec"]["syncPolicy"]["syncOption"] = []
    with pytest.raises(ClusterError, match="syncOption"):
        would_accept(plane, wrong)


def test_health_checks_are_added_to_existing_argo_cd_settings(plane: ControlPlane) -> None:
    """Applied as the pages say, onto a ConfigMap that has settings already: those stay."""
    make_namespace(plane, "argocd")
    config = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "argocd-cm", "namespace": "argocd"},
        "data": {"url": "https://argocd.example.com"},
    }
    plane.kubectl("create", "-f", "-", stdin=json.dumps(config))
    plane.kubectl("apply", "--server-side", "-f", str(ARGOCD / "argocd-cm.yaml"))
    data = json.loads(plane.kubectl("get", "configmap", "argocd-cm", "-n", "argocd", "-o", "json"))["data"]
    assert data.pop("url") == "https://argocd.example.com"
    assert len(data) == len(argocd.scripts())
    plane.kubectl("delete", "configmap", "argocd-cm", "-n", "argocd")


def test_objects_of_the_argo_cd_folder_are_accepted(with_crd: ControlPlane) -> None:
    make_namespace(with_crd, "models")
    files = [
        *ARGOCD.glob("resource_customizations/*/*/testdata/*.yaml"),
        *ARGOCD.glob("models/*.yaml"),
    ]
    documents = [document for file in files for document in yaml.safe_load_all(file.read_text())]
    for number, document in enumerate(documents):
        # The server's own fields; each object must be applied, though some have one name.
        for field in ("generation", "uid", "deletionTimestamp"):
            document["metadata"].pop(field, None)
        if document["kind"] != "Namespace":
            document["metadata"]["name"] += f"-{number}"
    assert would_accept(with_crd, documents).count("serverside-applied") == len(documents)


QUANTITIES: Manifest = {
    "apiVersion": f"{GROUP}/v1alpha1",
    "kind": LLM_SERVICES.kind,
    "metadata": {"name": "quantities", "namespace": "default"},
    "spec": {
        "replicas": 0,
        "models": [
            {
                "name": "quantities",
                "source": "file:///models/tiny",
                "accelerator": {"kind": "cpu"},
                "resources": {"cpu": "2500m", "memory": "5.0Gi", "sharedMemory": "1024Mi"},
            }
        ],
        "runtime": {"head": {"resources": {"cpu": "1", "memory": "4096Mi"}}, "idleTimeout": "60s"},
        "hold": {"timeout": "90s", "maxBodyBytes": "10485760"},
    },
}


def test_quantities_are_stored_unchanged(with_crd: ControlPlane) -> None:
    """Argo CD would report a difference for ever if a quantity came back in another form."""
    manager = ("--server-side", "--field-manager=argocd-controller", "-f", "-")
    with_crd.kubectl("apply", *manager, stdin=dump([QUANTITIES]))
    try:
        text = with_crd.kubectl("get", "llm", "quantities", "-o", "json")
        kept = json.loads(text)["spec"]
        assert kept["models"][0]["resources"] == QUANTITIES["spec"]["models"][0]["resources"]
        assert kept["runtime"]["head"]["resources"] == QUANTITIES["spec"]["runtime"]["head"]["resources"]
        assert kept["hold"].items() >= QUANTITIES["spec"]["hold"].items()
        # kubectl diff ends with an error if there is a difference.
        assert with_crd.kubectl("diff", *manager, stdin=dump([QUANTITIES])) == ""
    finally:
        with_crd.kubectl("delete", "llm", "quantities", "--wait=false")
