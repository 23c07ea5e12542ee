"""Rights of the operator: a golden file for people to read, and rules that no change may break.

Whether it is enough is tested with the operator itself in test_operator_rights.py.
"""

from pathlib import Path
from typing import Any

import pytest

from tests.chart.tools import EVERYTHING, Helm, Manifest, dump

GOLDEN = Path(__file__).parent / "golden"
KINDS = {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ServiceAccount"}
MODES = {
    "cluster": "watch.namespaced=false",
    "namespaced": "watch.namespaced=true",
    "listed": "watch.namespaces={research,serving}",
}
ALL_OPTIONS = [("--set", option) for option in MODES.values()] + [("--values", str(EVERYTHING))]


def rights(manifests: list[Manifest]) -> list[Manifest]:
    """Return the objects that give rights, without labels that change with each version."""
    found = [manifest for manifest in manifests if manifest["kind"] in KINDS]
    for manifest in found:
        for label in ("app.kubernetes.io/version", "helm.sh/chart"):
            manifest["metadata"]["labels"].pop(label)
    return sorted(found, key=lambda manifest: tuple(map(str, _place(manifest))))


def _place(manifest: Manifest) -> tuple[str | None, ...]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata["name"], metadata.get("namespace")


def test_listed_namespace_gets_rights_of_namespaced_release(helm: Helm) -> None:
    """And nothing more: of the cluster it reads nodes and PriorityClasses alone, or not even those."""

    def rules(*options: str) -> dict[tuple[str | None, ...], Any]:
        manifests = helm.template(*options)
        return {_place(m): m["rules"] for m in manifests if m["kind"] in ("Role", "ClusterRole")}

    own = rules("--set", "watch.namespaced=true")["Role", "daybreak", "daybreak-system"]
    listed = rules("--set", MODES["listed"])
    for namespace in ("research", "serving"):
        assert listed.pop(("Role", "daybreak", namespace)) == own
    assert ("Role", "daybreak", "daybreak-system") not in listed
    nodes, classes = listed.pop(("ClusterRole", "daybreak-daybreak-system", None))
    assert nodes == {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
    assert classes == {**nodes, "apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"]}
    users = {"daybreak-daybreak-system-view", "daybreak-daybreak-system-edit"}
    assert {name for kind, name, _ in listed if kind == "ClusterRole"} == users
    for without in ("watch.namespaced=true", "watch.nodes=false,userRoles.create=false"):
        found = rules("--set", MODES["listed"], "--set", without)
        assert not [place for place in found if place[0] == "ClusterRole"]
    assert (
        rules("--set", "watch.namespaces=research").keys()
        == rules("--set", "watch.namespaces={research}").keys()
    ), "one name is a list of one"


@pytest.mark.parametrize("mode", MODES)
def test_rights_equal_golden_file(helm: Helm, mode: str) -> None:
    """A change of rights is a change of this file, visible to its reviewer.

    When it is wanted: copy the text of the failure into the golden file.
    """
    text = dump(rights(helm.template("--set", MODES[mode])))
    assert text == (GOLDEN / f"rbac-{mode}.yaml").read_text()


@pytest.mark.parametrize("options", ALL_OPTIONS)
def test_roles_grant_no_wildcards_secrets_or_pod_access(helm: Helm, options: tuple[str, ...]) -> None:
    roles = [m for m in helm.template(*options) if m["kind"] in {"Role", "ClusterRole"}]
    assert roles
    for rule in (rule for role in roles for rule in role["rules"]):
        assert "nonResourceURLs" not in rule
        for words in rule.values():
            assert not any("*" in word for word in words), rule
        assert not {
            "secrets",
            "pods/exec",
            "pods/attach",
            "pods/portforward",
            "pods/log",
            "pods/proxy",
        } & set(rule["resources"]), rule
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"]), rule
        if "deployments" in rule["resources"]:
            # One of any name may be a ModelServer's: the admission policy checks the owner, not RBAC.
            assert set(rule["verbs"]) <= {"get", "list", "watch", "create", "patch", "delete"}, rule
        if {"roles", "rolebindings"} & set(rule["resources"]):
            # A gateway's: made where there is none, and changed only under its own name.
            assert set(rule["verbs"]) <= {"list", "watch", "create"} or rule["resourceNames"] == [
                "daybreak-gateway"
            ], rule


def test_operator_has_read_only_access_to_nodes_pods_and_own_kinds(helm: Helm) -> None:
    """Nodes, pods and Daybreak's kinds are read; of the latter, the operator writes only the status."""
    (role,) = (
        m for m in helm.template() if m["kind"] == "ClusterRole" and m["metadata"]["name"] == "daybreak"
    )
    read_only = {"get", "list", "watch"}
    for rule in role["rules"]:
        for resource in rule["resources"]:
            if resource in {
                "nodes",
                "priorityclasses",
                "pods",
                "llmservices",
                "llmbatches",
                "llmbenchmarks",
                "modelservers",
                "serveapplications",
                "llmroutes",
            }:
                assert set(rule["verbs"]) <= read_only, resource


@pytest.mark.parametrize("options", ALL_OPTIONS)
def test_rights_are_bound_only_to_service_account_of_operator(helm: Helm, options: tuple[str, ...]) -> None:
    manifests = helm.template(*options)
    (deployment,) = (m for m in manifests if m["kind"] == "Deployment")
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    bindings = [m for m in manifests if m["kind"].endswith("RoleBinding")]
    assert bindings
    for binding in bindings:
        assert binding["subjects"] == [
            {"kind": "ServiceAccount", "name": account, "namespace": "daybreak-system"}
        ]
        role = (binding["roleRef"]["kind"], binding["roleRef"]["name"])
        assert role in {(m["kind"], m["metadata"]["name"]) for m in manifests}


def test_default_service_account_is_bound_if_none_is_created(helm: Helm) -> None:
    manifests = helm.template("--set", "serviceAccount.create=false")
    assert not [m for m in manifests if m["kind"] == "ServiceAccount"]
    (binding,) = (m for m in manifests if m["kind"] == "ClusterRoleBinding")
    assert binding["subjects"][0]["name"] == "default"
