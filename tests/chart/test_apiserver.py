"""The chart, the base and Argo CD's manifests against a real API server with everybody's real CRDs.

Server-side dry-run with strict field validation is the check here: the API server knows every field, every
default and every rule of this Kubernetes, and refuses what a schema alone would let pass. test_kubeconform.py
checks the same files with kubeconform, against the schemas that this API server publishes.
"""

import contextlib
import copy
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import ClusterError, ControlPlane
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.schema.resource import GROUP
from daybreak.assembly import KINDS
from scripts.manifests import argocd
from tests.chart.tools import (
    CHART,
    EVERYTHING,
    NAMESPACE,
    ROOT,
    Helm,
    Manifest,
    ToolFailed,
    dump,
    load,
    one,
    program,
    run,
)

pytestmark = pytest.mark.xdist_group("chart-plane")

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:daybreak"
CRD = f"{LLM_SERVICES.plural}.{GROUP}"
CRDS = sorted(f"{kind.plural}.{GROUP}" for kind in KINDS)
OURS = "deployments,services,serviceaccounts,roles,rolebindings,networkpolicies,leases"
ARGOCD = ROOT / "manifests" / "argocd"


def make_namespace(plane: ControlPlane, name: str, **labels: str) -> None:
    """A namespace, made when it is not there yet."""
    plane.apply(
        json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    )


def would_accept(plane: ControlPlane, manifests: list[Manifest]) -> str:
    """Server-side dry-run of all objects, unknown and doubled fields refused. Raises ClusterError."""
    return plane.kubectl(
        "apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-", stdin=dump(manifests)
    )


def remove_crds(plane: ControlPlane) -> None:
    """Delete our CRDs and wait until they are gone."""
    plane.kubectl("delete", "crd", *CRDS, "--ignore-not-found", "--wait=false")
    await_crds_gone(plane)


def await_crds_gone(plane: ControlPlane) -> None:
    """Wait until our CRDs, which are deleted, are gone.

    The API server may forget that it has to clear custom resources away (crd_finalizer.go, Kubernetes 1.37):
    its first try fails and says so in the CRD's condition Terminating, the second one meets that change of
    its own, of which its cache has not heard yet, and leaves it to the event to come, which is passed over
    since nothing but that condition differs. Then it tries again at its next resync, minutes later; any other
    change of the CRD has it try at once.
    """
    for number in range(10):
        with contextlib.suppress(ClusterError):
            plane.kubectl("wait", "--for=delete", *(f"crd/{crd}" for crd in CRDS), "--timeout=15s")
            return
        for crd in CRDS:
            with contextlib.suppress(ClusterError):  # gone in between
                plane.kubectl("annotate", "crd", crd, f"tests/again={number}", "--overwrite")
    raise AssertionError("not all of our CRDs are gone")


@pytest.fixture
def cluster_helm(plane: ControlPlane) -> Iterator[Helm]:
    """Helm with the API server; what it has installed is removed afterwards, but for the CRDs: they are kept
    for the next release of this name in this namespace."""
    make_namespace(plane, NAMESPACE)
    helm = Helm(plane.kubeconfig)
    yield helm
    for release in json.loads(helm("list", "--all-namespaces", "--output", "json")):
        helm("uninstall", release["name"], "--namespace", release["namespace"])


@pytest.fixture
def without_crds(plane: ControlPlane) -> None:
    """An API server that has none of our CRDs, for tests of how they come."""
    remove_crds(plane)


@pytest.fixture
def with_crd(plane: ControlPlane) -> Iterator[ControlPlane]:
    """The API server with our CRDs, which no release of Helm's could take over afterwards."""
    plane.install_crds([CHART / "files" / "crds"])
    yield plane
    remove_crds(plane)


@pytest.mark.parametrize("options", [(), ("--values", str(EVERYTHING))], ids=["default", "everything"])
def test_every_object_is_accepted(plane: ControlPlane, helm: Helm, options: tuple[str, ...]) -> None:
    for name in (NAMESPACE, *yaml.safe_load(EVERYTHING.read_text())["watch"]["namespaces"]):
        make_namespace(plane, name)
    manifests = helm.template(*options)
    said = would_accept(plane, manifests)
    assert len(said.splitlines()) == len(manifests)


def test_a_field_that_does_not_exist_would_be_noticed(plane: ControlPlane, rendered: list[Manifest]) -> None:
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
def test_install_upgrade_uninstall_and_install_again(plane: ControlPlane, cluster_helm: Helm) -> None:
    install = ("upgrade", "--install", "daybreak", CHART, "--namespace", NAMESPACE)
    notes = cluster_helm(*install)
    assert "KubeRay is there" in notes
    assert "KUBERAY IS MISSING" not in notes
    cluster_helm(*install, "--set", "logLevel=debug")
    deployment = json.loads(plane.kubectl("get", "deployment", "daybreak", "-n", NAMESPACE, "-o", "json"))
    variables = {
        v["name"]: v.get("value") for v in deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    }
    assert variables["DAYBREAK_LOG_LEVEL"] == "debug"

    cluster_helm("uninstall", "daybreak", "--namespace", NAMESPACE)
    assert plane.kubectl("get", OURS, "-n", NAMESPACE, "-o", "name") == ""
    left = plane.kubectl("get", "clusterroles,clusterrolebindings,crds", "-o", "name").split()
    assert sorted(name for name in left if "daybreak" in name) == [
        f"customresourcedefinition.apiextensions.k8s.io/{crd}" for crd in CRDS
    ]

    cluster_helm(*install)  # onto the CRD that was kept


@pytest.mark.usefixtures("without_crds")
def test_uninstall_takes_the_crd_along_when_told_so(plane: ControlPlane, cluster_helm: Helm) -> None:
    cluster_helm("install", "daybreak", CHART, "--namespace", NAMESPACE, "--set", "crds.keep=false")
    cluster_helm("uninstall", "daybreak", "--namespace", NAMESPACE)
    left = json.loads(plane.kubectl("get", "crd", "-o", "json"))["items"]
    kept = [each["metadata"]["name"] for each in left if not each["metadata"].get("deletionTimestamp")]
    assert not set(kept) & set(CRDS)
    await_crds_gone(plane)


@pytest.mark.usefixtures("without_crds")
def test_upgrade_brings_a_new_crd(plane: ControlPlane, cluster_helm: Helm, tmp_path: Path) -> None:
    """What Helm's own crds/ folder would not do."""
    older = tmp_path / "daybreak"
    shutil.copytree(CHART, older)
    (file,) = (older / "files" / "crds").glob("*_llmservices.yaml")
    [crd] = load(file.read_text())
    columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    newest = columns.pop()
    file.write_text(yaml.safe_dump(crd))
    cluster_helm("install", "daybreak", older, "--namespace", NAMESPACE)
    cluster_helm("upgrade", "daybreak", CHART, "--namespace", NAMESPACE)
    live = json.loads(plane.kubectl("get", "crd", CRD, "-o", "json"))
    assert newest in live["spec"]["versions"][0]["additionalPrinterColumns"]


def test_a_second_release_beside_the_first_is_refused(plane: ControlPlane, cluster_helm: Helm) -> None:
    """Two operators over the same LLMServices: the names of the cluster's scope, or the Lease, say no."""
    cluster_helm("install", "daybreak", CHART, "--namespace", NAMESPACE)
    make_namespace(plane, "elsewhere")
    with pytest.raises(ToolFailed, match="daybreak"):
        cluster_helm("install", "daybreak", CHART, "--namespace", "elsewhere", "--set", "crds.enabled=false")
    with pytest.raises(ToolFailed, match="daybreak-operator"):
        cluster_helm(
            "install", "second-daybreak", CHART, "--namespace", NAMESPACE, "--set", "crds.enabled=false"
        )


def test_a_namespaced_release_needs_no_rights_beyond_its_namespace(
    with_crd: ControlPlane, tmp_path: Path
) -> None:
    """Installed by somebody who is administrator of one namespace and nothing else."""
    make_namespace(with_crd, "models")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "ada-admin", "namespace": "models"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "ada-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada"}],
    }
    # What ClusterRole admin aggregates on a full cluster, with what docs/install.md adds to it, and KubeRay's
    # and our kinds: she can give away only rights that she has.
    groups = {
        "": ["services", "serviceaccounts", "pods", "secrets", "configmaps", "persistentvolumeclaims"],
        "apps": ["deployments", "controllerrevisions"],
        "leaderworkerset.x-k8s.io": ["leaderworkersets"],
        "networking.k8s.io": ["networkpolicies"],
        "policy": ["poddisruptionbudgets"],
        "batch": ["jobs"],
        "rbac.authorization.k8s.io": ["roles", "rolebindings"],
        "coordination.k8s.io": ["leases"],
        "events.k8s.io": ["events"],
        "ray.io": ["rayservices", "rayservices/status", "rayjobs", "rayclusters"],
        "daybreak.dev": [
            f"{plural}{part}"
            for plural in (each.plural for each in KINDS)
            for part in ("", "/status", "/finalizers")
        ],
    }
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete"]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "ada-admin", "namespace": "models"},
        "rules": [
            {"apiGroups": [group], "resources": resources, "verbs": verbs}
            for group, resources in groups.items()
        ],
    }
    with_crd.apply(dump([role, binding]))
    own = tmp_path / "ada.kubeconfig"
    with_crd.write_kubeconfig(own, "ada", [])
    ada = Helm(own)
    options = ("--namespace", "models", "--set", "watch.namespaced=true", "--set", "crds.enabled=false")
    ada("install", "daybreak", CHART, *options)
    ada("uninstall", "daybreak", "--namespace", "models")
    with pytest.raises(ToolFailed, match="forbidden"):
        ada("install", "daybreak", CHART, "--namespace", "models", "--set", "crds.enabled=false")


def test_notes_work_when_pasted(plane: ControlPlane, cluster_helm: Helm, tmp_path: Path) -> None:
    notes = cluster_helm("install", "daybreak", CHART, "--namespace", NAMESPACE).partition("NOTES:")[2]
    plane.install_crds([CHART / "files" / "crds"])  # the same once more: waits until it is served
    make_namespace(plane, "default")
    (paste,) = re.findall(r"^kubectl apply .*?^EOF$", notes, re.MULTILINE | re.DOTALL)
    environment = {"KUBECONFIG": str(plane.kubeconfig), "PATH": f"{program('kubectl').parent}:/usr/bin:/bin"}
    run("bash", "-c", paste, environment=environment)
    (waits,) = re.findall(r"^kubectl wait .*$", notes, re.MULTILINE)
    service = json.loads(plane.kubectl("get", "llm", "qwen", "-n", "default", "-o", "json"))
    assert (
        f"-n {service['metadata']['namespace']} --for=condition=Ready llm/{service['metadata']['name']}"
        in waits
    )
    assert f'"model": "{service["spec"]["models"][0]["name"]}"' in notes
    assert "service/qwen 8080:80" in notes
    plane.kubectl("delete", "llm", "qwen", "-n", "default")


def test_notes_say_what_is_missing(helm: Helm) -> None:
    """Without a cluster there is no KubeRay either."""
    dry = ("install", "daybreak", CHART, "--namespace", "models", "--dry-run=client")
    notes = helm(*dry).partition("NOTES:")[2]
    assert "KUBERAY IS MISSING" in notes
    assert re.search(r"helm upgrade --install kuberay-operator .* --version \d+\.\d+\.\d+ ", notes)
    for image in ("daybreak-operator:", "daybreak-gateway:", "daybreak-ray:", "daybreak-ray-cpu:"):
        assert image in notes
    ours = "image.repository=r.example/o,gateway.image=r.example/g:1"
    named = ("--set", f"{ours},rayImage=r.example/r:1,rayCpuImage=r.example/c:1")
    notes = helm(*dry, *named, "--set", "crds.enabled=false,watch.namespaced=true").partition("NOTES:")[2]
    assert "must lie on the nodes" not in notes
    assert "The release has no CRDs" in notes
    assert "namespace: models" in notes
    assert "watches LLMServices in models." in notes
    notes = helm(*dry, "--set", "watch.namespaces={research,serving}").partition("NOTES:")[2]
    assert "watches LLMServices in research, serving." in notes
    assert "namespace: research" in notes


@pytest.mark.usefixtures("without_crds")
def test_base_applies_twice_and_goes_again(plane: ControlPlane) -> None:
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


def test_lease_can_be_made_by_apply_and_by_nothing_else(plane: ControlPlane, cluster_helm: Helm) -> None:
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
        """The question to the API server."""
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
def test_what_the_operator_may_not_do(plane: ControlPlane, cluster_helm: Helm, mode: str) -> None:
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


def test_argo_cds_own_crd_takes_the_applications(plane: ControlPlane) -> None:
    make_namespace(plane, "argocd")
    manifests = [yaml.safe_load(file.read_text()) for file in sorted(ARGOCD.glob("*.yaml"))]
    said = would_accept(plane, manifests)
    assert said.count("application.argoproj.io/") == 4
    wrong = copy.deepcopy(manifests)
    next(m for m in wrong if m["kind"] == "Application")["spec"]["syncPolicy"]["syncOption"] = []
    with pytest.raises(ClusterError, match="syncOption"):
        would_accept(plane, wrong)


def test_health_checks_join_argo_cds_settings(plane: ControlPlane) -> None:
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
        # The server's own fields; and each is to be applied, though some have one name.
        for field in ("generation", "uid", "deletionTimestamp"):
            document["metadata"].pop(field, None)
        if document["kind"] != "Namespace":
            document["metadata"]["name"] += f"-{number}"
    assert would_accept(with_crd, documents).count("serverside-applied") == len(documents)


def test_commands_of_the_installation_page_install(plane: ControlPlane, cluster_helm: Helm) -> None:
    """Every helm command for our chart on the page is understood, with values that exist."""
    page = (ROOT / "docs" / "install.md").read_text().replace("\\\n", " ")
    commands = re.findall(r"helm upgrade --install daybreak charts/daybreak (.*)$", page, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        words = [word for word in shlex.split(command) if word != "--wait"]
        for name in ("models", "research", "serving"):
            make_namespace(plane, name)
        cluster_helm("upgrade", "--install", "daybreak", CHART, *words, "--dry-run=server")


OTHER_NAMESPACE = "llm-platform"
NOT_IMPORTED = "cannot be imported into the current release"


def install(helm: Helm, release: str, namespace: str, *options: str) -> None:
    """Install the chart as a release."""
    helm("upgrade", "--install", release, CHART, "--namespace", namespace, "--create-namespace", *options)


def owners(plane: ControlPlane) -> set[str]:
    """Return the releases to which our CRDs belong."""
    path = r"{.items[*].metadata.annotations.meta\.helm\.sh/release-name}"
    return set(plane.kubectl("get", "crd", *CRDS, "-o", f"jsonpath={path}").split())


def test_kept_crds_are_taken_over_by_another_release(
    plane: ControlPlane, without_crds: None, cluster_helm: Helm
) -> None:
    """docs/install.md names the option by which a release takes over the CRDs that another one left."""
    try:
        install(cluster_helm, "daybreak", NAMESPACE)
        cluster_helm("uninstall", "daybreak", "--namespace", NAMESPACE)
        with pytest.raises(ToolFailed, match=NOT_IMPORTED):
            install(cluster_helm, "second", OTHER_NAMESPACE)
        install(cluster_helm, "second", OTHER_NAMESPACE, "--take-ownership")
        assert owners(plane) == {"second"}
    finally:
        remove_crds(plane)


def test_applied_crds_are_taken_over_by_a_release(with_crd: ControlPlane, cluster_helm: Helm) -> None:
    with pytest.raises(ToolFailed, match=NOT_IMPORTED):
        install(cluster_helm, "daybreak", NAMESPACE)
    install(cluster_helm, "daybreak", NAMESPACE, "--take-ownership")
    assert owners(with_crd) == {"daybreak"}


def test_option_that_takes_crds_over_is_documented() -> None:
    section = (ROOT / "docs" / "install.md").read_text().split("### CRDs of another release\n")[1]
    section = section.split("\n## ")[0]
    assert NOT_IMPORTED in section
    assert "--take-ownership" in section


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


def test_quantities_stay_as_they_are_written(with_crd: ControlPlane) -> None:
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
