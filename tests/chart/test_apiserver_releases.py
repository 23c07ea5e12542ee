"""Releases of the chart on a real API server: installed, upgraded, uninstalled, and taken over."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from cluster import ControlPlane
from daybreak.api.llmservice.resource import LLM_SERVICES
from daybreak.api.schema.resource import GROUP
from daybreak.assembly import KINDS
from tests.chart.api_server import CRDS, await_crds_gone, make_namespace, remove_crds
from tests.chart.tools import CHART, NAMESPACE, ROOT, Helm, ToolFailed, dump, load, program, run

pytestmark = pytest.mark.xdist_group("chart-plane")

OURS = "deployments,services,serviceaccounts,roles,rolebindings,networkpolicies,leases"
CRD = f"{LLM_SERVICES.plural}.{GROUP}"


@pytest.mark.usefixtures("without_crds")
def test_release_can_be_upgraded_uninstalled_and_installed_again(
    plane: ControlPlane, cluster_helm: Helm
) -> None:
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
def test_uninstall_deletes_crds_if_keep_is_false(plane: ControlPlane, cluster_helm: Helm) -> None:
    cluster_helm("install", "daybreak", CHART, "--namespace", NAMESPACE, "--set", "crds.keep=false")
    cluster_helm("uninstall", "daybreak", "--namespace", NAMESPACE)
    left = json.loads(plane.kubectl("get", "crd", "-o", "json"))["items"]
    kept = [each["metadata"]["name"] for each in left if not each["metadata"].get("deletionTimestamp")]
    assert not set(kept) & set(CRDS)
    await_crds_gone(plane)


@pytest.mark.usefixtures("without_crds")
def test_upgrade_updates_crd(plane: ControlPlane, cluster_helm: Helm, tmp_path: Path) -> None:
    """Helm's own crds/ folder would not do this."""
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


def test_second_release_is_rejected(plane: ControlPlane, cluster_helm: Helm) -> None:
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
    """Installed by an administrator of one namespace and nothing else."""
    make_namespace(with_crd, "models")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "ada-admin", "namespace": "models"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "ada-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ada"}],
    }
    # The rules that ClusterRole admin aggregates on a full cluster, plus those that docs/install.md adds, and
    # KubeRay's and our kinds: the administrator can grant only rights that she has.
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


def test_pasted_command_of_notes_creates_service(
    plane: ControlPlane, cluster_helm: Helm, tmp_path: Path
) -> None:
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


def test_notes_state_missing_kuberay_images_and_crds(helm: Helm) -> None:
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
def test_helm_commands_of_installation_page_succeed(plane: ControlPlane, cluster_helm: Helm) -> None:
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
