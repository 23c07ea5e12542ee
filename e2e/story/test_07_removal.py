"""Delete the LLMService, then Daybreak: nothing of either is left. Runs last."""

from quickstart.target import NAMESPACE as INSTALLED
from story.kubernetes import Kubernetes, eventually

KINDS = (
    "rayservices,rayclusters,services,serviceaccounts,networkpolicies,poddisruptionbudgets,pods,"
    "roles,rolebindings,secrets,configmaps,jobs,persistentvolumeclaims"
)
KUBERNETES_OWN = {"service/kubernetes", "serviceaccount/default", "configmap/kube-root-ca.crt"}


def test_delete_leaves_nothing(kubernetes: Kubernetes, tiny: str) -> None:
    kubernetes.delete("llm", tiny)
    eventually(lambda: set(kubernetes.names(KINDS)) - KUBERNETES_OWN, lambda left: not left, minutes=5)


def test_uninstall_leaves_only_the_crd(kubernetes: Kubernetes, tiny: str) -> None:
    kubernetes.target.helm("uninstall", "daybreak", "--namespace", INSTALLED, "--wait")
    eventually(
        lambda: set(kubernetes.names(f"{KINDS},deployments,leases", namespace=INSTALLED)) - KUBERNETES_OWN,
        lambda left: not left,
        minutes=3,
    )
    cluster_wide = kubernetes.target.kubectl(
        "get", "clusterroles,clusterrolebindings,customresourcedefinitions", "-o", "name"
    )
    assert [line for line in cluster_wide.split() if "daybreak" in line] == [
        "customresourcedefinition.apiextensions.k8s.io/llmservices.daybreak.dev"
    ]
