"""Steps of `make up`, each safe to repeat: finished work is not repeated."""

import os
import time
from collections.abc import Mapping

from cluster import paths
from cluster.errors import ClusterError
from cluster.tools.report import Report
from quickstart import chat
from quickstart.target import NAMESPACE, Target

CHART = paths.REPOSITORY / "charts" / "daybreak"
SAMPLE = paths.REPOSITORY / "manifests" / "samples" / "tiny-cpu.yaml"
SAMPLE_NAMESPACE = "default"
SAMPLE_NAME = "tiny"
STALLED_SECONDS = 60
"""Time after which a stalled sample counts as failed, in seconds; a node that joins late ends a stall."""
READY_SECONDS = 1200
"""Maximum time for the sample, in seconds; on two cores, Ray and vLLM take three minutes."""
QUESTION = "Good morning! What comes after night?"


def own_images() -> Mapping[str, str]:
    """Return the images of the operator, the gateway and Ray for the user's cluster, from the environment.

    Raises ClusterError if the environment does not name them.
    """
    variables = {"operator": "OPERATOR_IMAGE", "gateway": "GATEWAY_IMAGE", "ray-cpu": "RAY_CPU_IMAGE"}
    named = {name: os.environ.get(variable, "") for name, variable in variables.items()}
    if not all(named.values()):
        raise ClusterError(
            "your cluster pulls images from a registry: build images/operator, images/gateway and "
            "images/ray-cpu, push them, and set OPERATOR_IMAGE, GATEWAY_IMAGE and RAY_CPU_IMAGE "
            "(docs/install.md, 'A tiny model on the CPU')"
        )
    return named


def kuberay(target: Target, report: Report) -> None:
    """Ensure that KubeRay is installed.

    Raises ClusterError if the user's cluster lacks it: Daybreak does not install operators there.
    """
    if target.has_api("ray.io"):
        report.write("KubeRay: there")
        return
    if not target.embedded:
        raise ClusterError(
            "KubeRay is missing: helm install kuberay-operator from KubeRay's chart, then run this again"
        )
    raise ClusterError("KubeRay is missing from the embedded cluster: `make down`, then `make up`")


def daybreak(target: Target, refs: Mapping[str, str], report: Report) -> None:
    """Install or upgrade the chart and wait for the operator."""
    with report.step("Daybreak (helm upgrade --install daybreak charts/daybreak)"):
        target.helm(
            "upgrade", "--install", "daybreak", str(CHART),
            "--namespace", NAMESPACE, "--create-namespace",
            *chart_image(refs["operator"]), "--set", f"rayCpuImage={refs['ray-cpu']}",
            "--set", f"gateway.image={refs['gateway']}",
            "--wait", "--timeout", "5m",
        )  # fmt: skip


def chart_image(reference: str) -> list[str]:
    """Return the chart's settings for an operator image: REPOSITORY:TAG or REPOSITORY@DIGEST.

    Raises ClusterError if the reference has neither tag nor digest.
    """
    repository, at, digest = reference.partition("@")
    if at:
        return ["--set", f"image.repository={repository}", "--set", f"image.digest={digest}"]
    repository, colon, tag = reference.rpartition(":")
    if not colon or "/" in tag:
        raise ClusterError(f"OPERATOR_IMAGE={reference} has no tag: write {reference}:TAG")
    return ["--set", f"image.repository={repository}", "--set-string", f"image.tag={tag}"]


def sample(target: Target, report: Report) -> None:
    """Apply the sample model and wait until it answers, printing the cause of the wait.

    Raises ClusterError with the service's own message if it stalls or takes too long.
    """
    report.write(f"sample model: kubectl apply -f {SAMPLE.relative_to(paths.REPOSITORY)}")
    target.kubectl("apply", "-n", SAMPLE_NAMESPACE, "--server-side", "-f", str(SAMPLE))
    deadline = time.monotonic() + READY_SECONDS
    stalled_since, message = None, ""
    while (now := time.monotonic()) < deadline:
        service = target.get("-n", SAMPLE_NAMESPACE, "llmservice", SAMPLE_NAME) or {}
        conditions = {c["type"]: c for c in service.get("status", {}).get("conditions", [])}
        ready = conditions.get("Ready", {})
        current = service.get("status", {}).get("observedGeneration") == service.get("metadata", {}).get(
            "generation"
        )
        line = f"sample model: Ready={ready.get('status', 'Unknown')} {ready.get('message', '')}".rstrip()
        if line != message:
            report.write(line)
            message = line
        if ready.get("status") == "True" and current:
            return
        stalled = conditions.get("Stalled", {})
        if stalled.get("status") != "True":
            stalled_since = None
        elif now - (stalled_since := stalled_since or now) > STALLED_SECONDS:
            raise ClusterError(f"the sample model cannot start: {stalled.get('message', '')}")
        time.sleep(2)
    raise ClusterError(
        f"the sample model is not ready after {READY_SECONDS // 60} minutes; last seen: {message}. "
        f"See: kubectl -n {SAMPLE_NAMESPACE} describe llm {SAMPLE_NAME}"
    )


def talk(target: Target, report: Report) -> None:
    """Send the sample a question, and print the answer and the next steps."""
    service = target.get("-n", SAMPLE_NAMESPACE, "llmservice", SAMPLE_NAME) or {}
    model = service["spec"]["models"][0]["name"]
    with chat.connected(target, SAMPLE_NAMESPACE, SAMPLE_NAME) as client:
        answer = chat.ask(client, model, QUESTION)
    report.write("the model answers (it is tiny and untrained, so expect babble):")
    print(f"\n  you:   {QUESTION}\n  model: {answer!r}\n")
    kubectl = ".daybreak/bin/kubectl" if target.embedded else "kubectl"
    print(
        f"Next steps:\n"
        f"  export KUBECONFIG={'$PWD/.daybreak/kubeconfig' if target.embedded else target.kubeconfig}\n"
        f"  {kubectl} get llm\n"
        f"  {kubectl} port-forward service/{SAMPLE_NAME} 8080:80 &\n"
        f"  curl -s --retry 9 --retry-connrefused http://127.0.0.1:8080/v1/chat/completions \\\n"
        f"    -H 'content-type: application/json' \\\n"
        f'    -d \'{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}]}}\'\n'
        + ("  make e2e     # the end-to-end tests on this cluster\n" if target.embedded else "")
        + "  make down    # remove all of it"
    )
