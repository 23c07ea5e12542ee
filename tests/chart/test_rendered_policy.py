"""The admission policy as the chart renders it."""

import json

from daybreak.assembly import KINDS
from tests.chart.policy import policies
from tests.chart.tools import NAMESPACE, Helm, Manifest, of_kind


def test_policy_is_rendered_unless_disabled_or_namespaced(helm: Helm) -> None:
    assert len(policies(helm)) == 4
    assert not policies(helm, "--set", "admissionPolicy.enabled=false")
    assert len(policies(helm, "--set", "watch.namespaces={one,two}")) == 4
    assert not policies(helm, "--set", "watch.namespaced=true")  # nothing of the cluster's scope
    assert not policies(helm, "--set", "watch.namespaced=true,watch.namespaces={one,two}")


def test_policy_is_omitted_if_cluster_does_not_serve_its_kind(helm: Helm) -> None:
    """The kinds that a cluster serves are known with it; without a cluster only its version is known."""
    served = ("--api-versions", "v1/Pod")
    kind = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
    assert not policies(helm, *served)
    assert len(policies(helm, *served, "--api-versions", kind)) == 4


def test_policy_applies_only_to_service_account_of_operator(helm: Helm) -> None:
    found = policies(helm, "--set", "serviceAccount.name=mine")
    for policy in of_kind(found, "ValidatingAdmissionPolicy"):
        assert policy["spec"]["failurePolicy"] == "Fail"
        [condition] = policy["spec"]["matchConditions"]
        assert condition["expression"] == (
            f"request.userInfo.username == 'system:serviceaccount:{NAMESPACE}:mine'"
        )
    for binding in of_kind(found, "ValidatingAdmissionPolicyBinding"):
        assert binding["spec"]["validationActions"] == ["Deny"]


def test_gateway_images_of_policy_equal_images_of_values(helm: Helm) -> None:
    more = {"containers": [{"name": "logs", "image": "r.example/logs:1"}, {"name": "gateway"}]}
    more["initContainers"] = [{"name": "first", "image": "r.example/first:1"}]
    set_json = f"gateway.podTemplate={json.dumps({'spec': more})}"
    found = policies(helm, "--set", "gateway.image=r.example/g:1", "--set-json", set_json)
    images = of_kind(found, "ValidatingAdmissionPolicy")[0]["spec"]["variables"][0]
    assert images["name"] == "gatewayImages"
    assert json.loads(images["expression"]) == ["r.example/g:1", "r.example/logs:1", "r.example/first:1"]


def test_policy_covers_all_objects_that_operator_may_write(rendered: list[Manifest]) -> None:
    """Except the objects that RBAC alone bounds: a status, events, token reviews and the operator's Lease."""
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
