"""Remove everything as in docs/install.md: nothing is left. Runs last."""

from quickstart.removal import GATEWAY_KINDS, GATEWAY_LABEL
from quickstart.target import NAMESPACE as INSTALLED
from story.objects.kubernetes import Kubernetes, eventually

KINDS = (
    "rayservices,rayjobs,rayclusters,services,serviceaccounts,networkpolicies,poddisruptionbudgets,deployments,"
    "replicasets,pods,roles,rolebindings,secrets,configmaps,jobs,persistentvolumeclaims"
)
KUBERNETES_OWN = {"service/kubernetes", "serviceaccount/default", "configmap/kube-root-ca.crt"}


def test_documented_removal_leaves_no_gateway(kubernetes: Kubernetes, tiny: str) -> None:
    """The commands run without pauses: the operator removes the gateway before it is removed itself."""
    kubectl, helm = kubernetes.target.kubectl, kubernetes.target.helm
    everywhere = "--all-namespaces"
    kubectl("delete", "llm", "--all", everywhere)
    kubectl("wait", "--for=delete", "deployment", everywhere, "-l", GATEWAY_LABEL, "--timeout=60s")
    helm("uninstall", "daybreak", "--namespace", INSTALLED, "--wait")
    assert kubernetes.names(GATEWAY_KINDS, "-l", GATEWAY_LABEL) == []


def test_removal_leaves_no_objects_in_service_namespace(kubernetes: Kubernetes) -> None:
    eventually(lambda: set(kubernetes.names(KINDS)) - KUBERNETES_OWN, lambda left: not left, minutes=5)


def test_removal_leaves_only_crds_of_daybreak(kubernetes: Kubernetes) -> None:
    eventually(
        lambda: set(kubernetes.names(f"{KINDS},leases", namespace=INSTALLED)) - KUBERNETES_OWN,
        lambda left: not left,
        minutes=3,
    )
    cluster_wide = kubernetes.target.kubectl(
        "get", "clusterroles,clusterrolebindings,customresourcedefinitions", "-o", "name"
    )
    assert [line for line in cluster_wide.split() if "daybreak" in line] == [
        "customresourcedefinition.apiextensions.k8s.io/llmbatches.daybreak.dev",
        "customresourcedefinition.apiextensions.k8s.io/llmbenchmarks.daybreak.dev",
        "customresourcedefinition.apiextensions.k8s.io/llmroutes.daybreak.dev",
        "customresourcedefinition.apiextensions.k8s.io/llmservices.daybreak.dev",
        "customresourcedefinition.apiextensions.k8s.io/modelservers.daybreak.dev",
        "customresourcedefinition.apiextensions.k8s.io/serveapplications.daybreak.dev",
    ]
