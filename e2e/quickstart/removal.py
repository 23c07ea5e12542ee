"""Removal of Daybreak from the user's cluster by `make down`, in the order of docs/install.md."""

from cluster.errors import ClusterError
from cluster.tools.report import Report
from quickstart import install
from quickstart.target import NAMESPACE, Target

GATEWAY_LABEL = "app.kubernetes.io/name=daybreak-gateway"
GATEWAY_KINDS = "deployment,service,serviceaccount,role,rolebinding,poddisruptionbudget,networkpolicy"
GATEWAY_SECONDS = 60
"""Maximum time for the operator to remove a gateway, in seconds; it needs about one second."""


def remove(target: Target, report: Report) -> None:
    """Remove the sample model, its namespace's gateway and Daybreak, and report the remaining objects."""
    others: list[str] = []
    with report.step("Daybreak and the sample model removed from your cluster", expect_seconds=20):
        if target.has_api("daybreak.dev"):
            target.kubectl(
                "delete", "-n", install.SAMPLE_NAMESPACE, "llmservice", install.SAMPLE_NAME,
                "--ignore-not-found", "--wait",
            )  # fmt: skip
            others = _services(target)
            if not any(name.startswith(f"{install.SAMPLE_NAMESPACE}/") for name in others):
                _wait_for_gateway(target)
        target.helm("uninstall", "daybreak", "--namespace", NAMESPACE, "--ignore-not-found", "--wait")
    if others:
        report.write(
            f"kept: {', '.join(others)}: they continue to serve, but are not "
            "repaired or woken, and their gateways are not removed, until Daybreak is installed again"
        )
    report.write(
        "kept: the CRDs (kubectl delete crd llmservices.daybreak.dev llmbatches.daybreak.dev "
        "llmbenchmarks.daybreak.dev modelservers.daybreak.dev serveapplications.daybreak.dev "
        "llmroutes.daybreak.dev removes them) "
        "and KubeRay"
    )


def _services(target: Target) -> list[str]:
    """Return every workload behind a gateway, as namespace/name."""
    each = '{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\\n"}{end}'
    return target.kubectl(
        "get", "llmservices,modelservers,serveapplications", "--all-namespaces", "-o", f"jsonpath={each}"
    ).split()


def _wait_for_gateway(target: Target) -> None:
    """Wait until the operator has removed the gateway of the sample's namespace, if there is one.

    A gateway belongs to no single LLMService, so only the operator removes it. Its Deployment is deleted
    last.
    """
    namespace = ("-n", install.SAMPLE_NAMESPACE)
    timeout = f"--timeout={GATEWAY_SECONDS}s"
    try:
        target.kubectl("wait", *namespace, "--for=delete", "deployment", "-l", GATEWAY_LABEL, timeout)
    except ClusterError as error:
        by_hand = f"kubectl delete -n {install.SAMPLE_NAMESPACE} {GATEWAY_KINDS} -l {GATEWAY_LABEL}"
        raise ClusterError(
            f"{error}; does the operator run (kubectl get -n {NAMESPACE} deployment/daybreak)? "
            f"Without it, remove the gateway by hand and run this again: {by_hand}"
        ) from None
