"""Objects that the admission policy denies to the operator."""

from collections.abc import Callable

from daybreak.api.common import names
from tests.chart.operator_objects import (
    HOST_PATH,
    Change,
    account_of_pods,
    head,
    of_a_report,
    of_a_route,
    of_gateway,
    of_sample,
    of_several_nodes,
    of_the_application,
    of_the_batch,
    of_the_benchmark,
    of_the_server,
    pod,
)
from tests.chart.tools import Manifest
from tests.golden.test_samples import benchmarks

WRONG: dict[str, tuple[Callable[[], Manifest], Change, str]] = {
    "a route's Service of another name": (
        of_a_route,
        lambda m: m["metadata"].update(name="other"),
        "and a Service of an LLMRoute",
    ),
    "a route's Service with the gateway's name": (
        of_a_route,
        lambda m: (m["metadata"].update(name="llm"), m["metadata"]["ownerReferences"][0].update(name="llm")),
        "and a Service of an LLMRoute",
    ),
    "the head on a path of the node": (
        lambda: of_sample("RayService"),
        lambda m: head(m)["volumes"].append(HOST_PATH),
        "hostPath",
    ),
    "a job of another cluster": (
        lambda: of_the_batch("RayJob"),
        lambda m: m["spec"].update(clusterSelector={"ray.io/cluster": "other"}),
        "Ray cluster of its own",
    ),
    "another program": (
        lambda: of_the_batch("RayJob"),
        lambda m: m["spec"].update(entrypoint="bash"),
        "runs daybreak_runtime",
    ),
    "a job with a pod that submits it": (
        lambda: of_the_batch("RayJob"),
        lambda m: m["spec"].update(submissionMode="K8sJobMode"),
        "submitted over HTTP",
    ),
    "a job of another name": (
        lambda: of_the_batch("RayJob"),
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "a job without its token": (
        lambda: of_the_batch("RayJob"),
        lambda m: m["spec"]["rayClusterSpec"].pop("authOptions"),
        "authOptions",
    ),
    "a benchmark's Job of another name": (
        lambda: of_the_benchmark("Job"),
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "a benchmark's Job with another program": (
        lambda: of_the_benchmark("Job"),
        lambda m: m["spec"]["template"]["spec"]["containers"][0].update(command=["bash"]),
        "runs daybreak_runtime.benchmark",
    ),
    "a ConfigMap of another name": (
        lambda: of_a_report(benchmarks()[0].values[0]),
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "a ConfigMap of a service": (
        lambda: of_a_report(benchmarks()[0].values[0]),
        lambda m: m["metadata"]["ownerReferences"][0].update(kind="LLMService"),
        "named after",
    ),
    "a ModelServer's Deployment of another name": (
        lambda: of_the_server("Deployment"),
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "a ModelServer's Service of another name": (
        lambda: of_the_server("Service"),
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "a ModelServer's LeaderWorkerSet of another name": (
        of_several_nodes,
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "a service's LeaderWorkerSet": (
        of_several_nodes,
        lambda m: m["metadata"]["ownerReferences"][0].update(kind="LLMService"),
        "so are LeaderWorkerSets",
    ),
    "workers of a LeaderWorkerSet with a host's path": (
        of_several_nodes,
        lambda m: m["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["volumes"].append(
            {"name": "host", "hostPath": {"path": "/etc"}}
        ),
        "hostPath",
    ),
    "workers of a LeaderWorkerSet with an account of their own": (
        of_several_nodes,
        lambda m: m["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"].update(
            serviceAccountName="other"
        ),
        "have one ServiceAccount",
    ),
    "an application's RayService of another name": (
        lambda: of_the_application("RayService"),
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "an application that owns a Deployment": (
        lambda: of_the_server("Deployment"),
        lambda m: m["metadata"]["ownerReferences"][0].update(kind="ServeApplication"),
        "Deployment of a ModelServer",
    ),
    "a ModelServer that owns a RayService": (
        lambda: of_sample("RayService"),
        lambda m: m["metadata"]["ownerReferences"][0].update(kind="ModelServer"),
        "named after",
    ),
    "a ModelServer's pods with the gateway's account": (
        lambda: of_the_server("Deployment"),
        lambda m: m["spec"]["template"]["spec"].update(automountServiceAccountToken=True),
        "automountServiceAccountToken",
    ),
    "a ModelServer's pods with a host's path": (
        lambda: of_the_server("Deployment"),
        lambda m: m["spec"]["template"]["spec"]["volumes"].append(
            {"name": "host", "hostPath": {"path": "/etc"}}
        ),
        "hostPath",
    ),
    "a batch that owns a RayService": (
        lambda: of_sample("RayService"),
        lambda m: m["metadata"]["ownerReferences"][0].update(kind="LLMBatch"),
        "named after",
    ),
    "a policy for a service's pods": (
        lambda: of_the_batch("NetworkPolicy"),
        lambda m: m["spec"]["podSelector"]["matchLabels"].update({**names.owner_labels("everything")}),
        "selects pods of its own",
    ),
    "no label": (
        lambda: of_sample("Service"),
        lambda m: m["metadata"]["labels"].pop(names.MANAGED_BY_LABEL),
        "managed-by",
    ),
    "no owner": (
        lambda: of_sample("RayService"),
        lambda m: m["metadata"].pop("ownerReferences"),
        "controlled by an LLMService",
    ),
    "an owner that does not control": (
        lambda: of_sample("Service"),
        lambda m: m["metadata"]["ownerReferences"][0].update(controller=False),
        "controlled by an LLMService",
    ),
    "an owner of another kind": (
        lambda: of_sample("Job"),
        lambda m: m["metadata"]["ownerReferences"][0].update(apiVersion="v1", kind="ConfigMap"),
        "controlled by an LLMService",
    ),
    "another Deployment": (
        lambda: of_gateway("Deployment"),
        lambda m: m["metadata"].update(name="mine"),
        "controlled by an LLMService",
    ),
    "a Deployment of a service": (
        lambda: of_gateway("Deployment"),
        lambda m: m["metadata"].update(
            name="mine", ownerReferences=of_sample("Service")["metadata"]["ownerReferences"]
        ),
        "are the gateway's",
    ),
    "another name": (
        lambda: of_sample("Service"),
        lambda m: m["metadata"].update(name="other"),
        "named after",
    ),
    "another image": (
        lambda: of_gateway("Deployment"),
        lambda m: pod(m)["containers"][0].update(image="evil:1"),
        "image",
    ),
    "one more container of the gateway": (
        lambda: of_gateway("Deployment"),
        lambda m: pod(m).update(initContainers=[{"name": "x", "image": "evil:1"}]),
        "image",
    ),
    "another account of the gateway": (
        lambda: of_gateway("Deployment"),
        lambda m: pod(m).update(serviceAccountName="default"),
        "ServiceAccount",
    ),
    "the gateway's token in all its containers": (
        lambda: of_gateway("Deployment"),
        lambda m: pod(m).update(automountServiceAccountToken=True),
        "automountServiceAccountToken",
    ),
    "the gateway's token in HAProxy's container": (
        lambda: of_gateway("Deployment"),
        lambda m: pod(m)["containers"][0].update(volumeMounts=pod(m)["containers"][1]["volumeMounts"][1:2]),
        "HAProxy's container",
    ),
    "API keys in HAProxy's container": (
        lambda: of_gateway("Deployment"),
        lambda m: pod(m)["containers"][0].update(volumeMounts=pod(m)["containers"][1]["volumeMounts"][-1:]),
        "HAProxy's container",
    ),
    "pods of two accounts": (
        lambda: of_sample("RayService"),
        lambda m: head(m).update(serviceAccountName="other"),
        "one ServiceAccount",
    ),
    "no account": (
        lambda: of_sample("Job"),
        lambda m: pod(m).pop("serviceAccountName"),
        "one ServiceAccount",
    ),
    "a token in a Job": (
        lambda: of_sample("Job"),
        lambda m: pod(m).pop("automountServiceAccountToken"),
        "automountServiceAccountToken",
    ),
    "a token in Ray": (
        lambda: of_sample("RayService"),
        lambda m: head(m).update(automountServiceAccountToken=True),
        "automountServiceAccountToken",
    ),
    "a token in an account": (
        account_of_pods,
        lambda m: m.update(automountServiceAccountToken=True),
        "automountServiceAccountToken",
    ),
    "a Secret in an account": (
        account_of_pods,
        lambda m: m.update(imagePullSecrets=[{"name": "hub"}]),
        "Secrets",
    ),
    "Ray without its token": (
        lambda: of_sample("RayService"),
        lambda m: m["spec"]["rayClusterConfig"].pop("authOptions"),
        "authOptions",
    ),
    "another image of the autoscaler": (
        lambda: of_sample("RayService"),
        lambda m: m["spec"]["rayClusterConfig"]["autoscalerOptions"].update(image="evil:1"),
        "autoscaler",
    ),
    "a privileged autoscaler": (
        lambda: of_sample("RayService"),
        lambda m: m["spec"]["rayClusterConfig"]["autoscalerOptions"].update(
            securityContext={"privileged": True}
        ),
        "autoscaler",
    ),
    "an address outside of the cluster": (
        lambda: of_sample("Service"),
        lambda m: m["spec"].update(externalIPs=["192.0.2.1"]),
        "ClusterIP",
    ),
    "a load balancer": (
        lambda: of_gateway("Service"),
        lambda m: m["spec"].update(type="LoadBalancer"),
        "ClusterIP",
    ),
    "a load balancer of KubeRay's": (
        lambda: of_sample("RayService"),
        lambda m: m["spec"].update(serveService={"spec": {"type": "LoadBalancer"}}),
        "ClusterIP",
    ),
    "a policy for other pods": (
        lambda: of_sample("NetworkPolicy"),
        lambda m: m["spec"].update(podSelector={}),
        "selects",
    ),
    "a policy of the gateway for other pods": (
        lambda: of_gateway("NetworkPolicy"),
        lambda m: m["spec"].update(podSelector={"matchLabels": {"app": "x"}}),
        "selects",
    ),
    "a budget for other pods": (
        lambda: of_sample("PodDisruptionBudget"),
        lambda m: m["spec"].update(selector={}),
        "selects",
    ),
    "another Role": (
        lambda: of_gateway("Role"),
        lambda m: m["metadata"].update(name="mine"),
        "controlled by an LLMService",
    ),
    "a Role that writes": (
        lambda: of_gateway("Role"),
        lambda m: m["rules"].append(
            {"apiGroups": ["ray.io"], "resources": ["rayservices"], "verbs": ["create"]}
        ),
        "Role",
    ),
    "a Role that reads more": (
        lambda: of_gateway("Role"),
        lambda m: m["rules"][1]["resources"].append("services"),
        "Role",
    ),
    "a Role that reads others of ours": (
        lambda: of_gateway("Role"),
        lambda m: m["rules"][0]["resources"].append("llmbatches"),
        "Role",
    ),
    "a binding of somebody else": (
        lambda: of_gateway("RoleBinding"),
        lambda m: m["subjects"][0].update(name="default"),
        "RoleBinding",
    ),
    "a binding of a user": (
        lambda: of_gateway("RoleBinding"),
        lambda m: m["subjects"].append(
            {"kind": "User", "name": "ada", "apiGroup": "rbac.authorization.k8s.io"}
        ),
        "RoleBinding",
    ),
    "a binding to a ClusterRole": (
        lambda: of_gateway("RoleBinding"),
        lambda m: m["roleRef"].update(kind="ClusterRole", name="daybreak"),
        "RoleBinding",
    ),
}
"""Objects that the operator never writes, and a word of the policy's message for each."""
