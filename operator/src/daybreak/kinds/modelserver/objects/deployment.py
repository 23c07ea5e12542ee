"""The Deployment: the engine's pods, none of them in sleep."""

import math
from collections.abc import Mapping
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.canonical import digest
from daybreak.api.common.scalars import parse_quantity
from daybreak.api.common.source import ModelSource, Scheme
from daybreak.api.common.unstructured import at, mappings, text, whole
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.validation import ENGINE_CONTAINER
from daybreak.api.ray.model import AcceleratorKind
from daybreak.kinds.modelserver.objects.engine import command, drain_seconds, environment, probe
from daybreak.kinds.modelserver.objects.metadata import metadata
from daybreak.kinds.modelserver.objects.revisions import content
from daybreak.platform import Platform
from daybreak.ray.network import own_pods
from daybreak.ray.pods import pod_spec, weights
from daybreak.scheduling.replica_size import worker_cpu, worker_need, worker_shared_memory

LEAVE_SECONDS = 5
"""How long an engine goes on after its pod was told to end: gateways hear of it, and send nothing more."""
EXIT_SECONDS = 10
"""What it may take to end after its last request."""
UNPROVEN_SECONDS = 365 * 24 * 3600
"""How long a pod must be ready to take the place of another one, while nothing like it has answered."""
_NO_DEADLINE = 2**31 - 1
"""Kubernetes' number for none: a change has its own, which lasts until the first answer."""


def deployment(
    server: ModelServer, platform: Platform, replicas: int, *, unproven: bool = False
) -> dict[str, Any]:
    """The Deployment, with so many pods.

    `unproven`: no pod of those that run goes for a new one, be it ready, before it is known to answer.
    """
    found = metadata(server, names.server_deployment(server.name))
    found["annotations"] = {names.WISHES_ANNOTATION: wishes(server)}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": found,
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 1,
            "progressDeadlineSeconds": _NO_DEADLINE,
            **({"minReadySeconds": UNPROVEN_SECONDS} if unproven else {}),
            "selector": own_pods(server.owner),
            # A pod goes when one in its place is ready, and proven: no request finds nobody.
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": template(server, platform),
        },
    }


def wishes(server: ModelServer) -> str:
    """Digest of what the spec says of the pods."""
    return digest(content(server))


def listens(deployment: Mapping[str, Any]) -> tuple[int, str]:
    """Port and path at which the engine of its pods is asked whether it is ready."""
    containers = at(deployment, "spec", "template", "spec").get("containers")
    for each in mappings(containers):
        if each.get("name") == ENGINE_CONTAINER:
            asked = at(each, "readinessProbe", "httpGet")
            return whole(asked.get("port")), text(asked.get("path"))
    return 0, ""


def configuration(deployment_or_pod: Mapping[str, Any] | None) -> str:
    """Digest of what a Deployment's pods run, or a pod; empty: of none."""
    found = at(deployment_or_pod, "spec", "template", "metadata", "labels") or at(
        deployment_or_pod, "metadata", "labels"
    )
    return text(found.get(names.CONFIGURATION_LABEL))


def template(server: ModelServer, platform: Platform) -> dict[str, Any]:
    """The pods' template."""
    model, workload, policy = server.model, server.workload, server.spec.image_pull_policy
    need = worker_need(model)
    # What a bucket holds is the engine's to read: nothing of Ray's copies it.
    own = _weights(server, policy)
    places = [pod_spec.memory_place(worker_shared_memory(model)), pod_spec.cache_place()]
    if own.volume is not None and own.mount is not None:
        places.append(pod_spec.Place(own.volume, own.mount))
    claim = model.accelerator.claim
    found = pod_spec.template(
        workload,
        platform,
        component=names.SERVER_COMPONENT,
        image=platform.image_of(workload),
        labels={names.MODEL_LABEL: names.worker_group(model.name)},
        ports=_ports(server),
        env=pod_spec.environment(workload, _environment(server, own), weights.environment(model)),
        requests=dict(need.requests),
        places=places,
        claim=None if claim is None else claim.template_name,
        overlay=model.pod_template,
        node_selector=dict(need.node_selector),
        tolerations=need.tolerations,
        grace_seconds=LEAVE_SECONDS + drain_seconds(server) + EXIT_SECONDS,
        container_name=ENGINE_CONTAINER,
    )
    container = found["spec"]["containers"][0]
    if server.profile.metrics_at is not None:
        said = at(found, "metadata", "annotations")
        found["metadata"]["annotations"] = {**_scraped(*server.profile.metrics_at), **said}
    container |= command(server, own)
    container["readinessProbe"] = probe(server)
    container["lifecycle"] = {"preStop": {"sleep": {"seconds": LEAVE_SECONDS}}}
    # Its last words say why it did not start.
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    found["metadata"]["labels"][names.CONFIGURATION_LABEL] = digest(found)
    return found


def _ports(server: ModelServer) -> dict[str, int]:
    """Ports by their names; a number stands there once."""
    port = server.profile.port
    metrics = server.profile.metrics_at or (port, "")
    return {"http": port} | ({} if metrics[0] == port else {"metrics": metrics[0]})


def _scraped(port: int, path: str) -> dict[str, str]:
    """Annotations by which Prometheus' usual configurations, and the chart's PodMonitor, find metrics."""
    return {"prometheus.io/scrape": "true", "prometheus.io/port": str(port), "prometheus.io/path": path}


def _weights(server: ModelServer, pull_policy: str) -> weights.Weights:
    source = ModelSource.parse(server.spec.model.source)
    if source.scheme in (Scheme.S3, Scheme.GCS):
        return weights.Weights(source.reference)
    return weights.weights(server.owner, server.model, pull_policy)


def _environment(server: ModelServer, own: weights.Weights) -> dict[str, str]:
    model = server.model
    found = {"XDG_CACHE_HOME": pod_spec.CACHE_DIRECTORY} | environment(server, own)
    if server.image is not None:
        # An image of somebody else's may have a home that our user cannot write to.
        found["HOME"] = pod_spec.CACHE_DIRECTORY
    if model.accelerator.kind is AcceleratorKind.GPU:
        return found | pod_spec.COMPILERS
    return found | {"OMP_NUM_THREADS": str(max(1, math.floor(parse_quantity(worker_cpu(model)))))}
