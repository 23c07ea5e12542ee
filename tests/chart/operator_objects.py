"""Objects that the operator writes, for the admission policy."""

import copy
import json
from collections.abc import Callable
from typing import Any

from daybreak.api.common import names
from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.llmroute.definition import LLMRoute
from daybreak.api.llmroute.resource import LLM_ROUTES
from daybreak.api.llmservice.definition import LLMService
from daybreak.assembly import WORKLOADS
from daybreak.gateways.objects import gateway
from daybreak.kinds.llmbenchmark.objects.report_map import report_map
from daybreak.kinds.llmroute.decide.plan import own_service
from daybreak.kinds.llmservice.objects.desired import desired
from daybreak.kinds.llmservice.objects.revisions import controller_revision, with_own
from tests.chart.tools import Manifest, of_kind, one
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

MODELS = "policy-models"
"""Namespace of the services."""
WITH_ROLE = "policy-bindings"
"""Namespace where the gateway's Role is: Kubernetes binds only those that are there."""

Change = Callable[[dict[str, Any]], object]


def objects(manifest: Manifest) -> list[Manifest]:
    """Return the objects that the operator writes for an LLMService, Jobs included."""
    metadata = {"uid": "0-0", **manifest["metadata"], "namespace": MODELS}
    svc = LLMService.from_manifest({**manifest, "metadata": metadata})
    unfilled = [model.name for model in svc.spec.models]
    others = desired(svc, PLATFORM, f"{svc.name}-abcde", names.GATEWAY_PORTS[0], unfilled=unfilled)
    return [controller_revision(svc, with_own(svc, ())[0]), *others]


def of_sample(kind: str) -> Manifest:
    """Return an object of the service that sets everything."""
    (everything,) = (p.values[0] for p in services() if p.values[0]["metadata"]["name"] == "everything")
    return copy.deepcopy(of_kind(objects(everything), kind)[0])


def of_the_batch(kind: str) -> Manifest:
    """Return an object of the batch of the samples."""
    return copy.deepcopy(of_kind(of_batch(batches()[0].values[0], MODELS), kind)[0])


def of_the_benchmark(kind: str) -> Manifest:
    """Return an object of a benchmark of the samples."""
    return copy.deepcopy(of_kind(of_benchmark(benchmarks()[0].values[0], MODELS), kind)[0])


def of_a_report(sample: Manifest) -> Manifest:
    """Return the ConfigMap with the report of a benchmark."""
    metadata = {"uid": "0-0", **sample["metadata"], "namespace": MODELS}
    return report_map(LLMBenchmark.from_manifest({**sample, "metadata": metadata}), {"report.html": "<p>"})


def of_the_server(kind: str) -> Manifest:
    """Return an object of a ModelServer of the samples."""
    return copy.deepcopy(of_kind(of_server(servers()[0].values[0], MODELS), kind)[0])


def of_several_nodes() -> Manifest:
    """Return the LeaderWorkerSet of a ModelServer of the samples."""
    [found] = [one.values[0] for one in servers() if one.values[0]["spec"].get("nodes")]
    return copy.deepcopy(of_kind(of_server(found, MODELS), "LeaderWorkerSet")[0])


def of_the_application(kind: str) -> Manifest:
    """Return an object of a ServeApplication of the samples."""
    return copy.deepcopy(of_kind(of_application(applications()[0].values[0], MODELS), kind)[0])


def of_a_route() -> Manifest:
    """Return the dedicated Service of an LLMRoute."""
    manifest = route("chat", address="Dedicated")
    metadata = {**manifest["metadata"], "uid": "0-0", "namespace": MODELS}
    return own_service(LLMRoute.from_manifest({**manifest, "metadata": metadata}), 19000)


def of_gateway(kind: str) -> Manifest:
    """Return an object of the gateway with a Secret of keys."""
    namespace = WITH_ROLE if kind == "RoleBinding" else MODELS
    objects = gateway(namespace, WORKLOADS, PLATFORM, {"keys"}, [LLM_ROUTES])
    return copy.deepcopy(of_kind(objects, kind)[0])


def account_of_pods() -> Manifest:
    """Return the ServiceAccount that the operator makes."""
    sample = next(p.values[0] for p in services() if "serviceAccountName" not in json.dumps(p.values[0]))
    return copy.deepcopy(one(objects(sample), "ServiceAccount"))


def foreign_service() -> Manifest:
    """Return a Service without an owner."""
    spec = {"selector": {"app": "x"}, "ports": [{"port": 80}]}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "foreign", "namespace": MODELS},
        "spec": spec,
    }


CLUSTERS = {"RayService": "rayClusterConfig", "RayJob": "rayClusterSpec"}
"""Field of each kind that contains the configuration of a Ray cluster."""


def pod(manifest: Manifest) -> dict[str, Any]:
    """Return the pod that an object makes, of a Ray cluster its last worker group's."""
    if manifest["kind"] in CLUSTERS:
        manifest = manifest["spec"][CLUSTERS[manifest["kind"]]]["workerGroupSpecs"][-1]
        found: dict[str, Any] = manifest["template"]["spec"]
        return found
    found = manifest["spec"]["template"]["spec"]
    return found


def head(manifest: Manifest) -> dict[str, Any]:
    """Return the head's pod of a RayService."""
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
"""Fields that reach a node, by their name in the message."""
