"""Pods of a server: one per replica, or a leader and its workers for a replica on several nodes."""

import math
from typing import Any

from daybreak.api.common import names
from daybreak.api.common.canonical import digest
from daybreak.api.common.source import ModelSource, Scheme
from daybreak.api.common.unstructured import at
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.validation import ENGINE_CONTAINER
from daybreak.api.ray.model import AcceleratorKind
from daybreak.api.schema.scalars import parse_quantity
from daybreak.kinds.modelserver.objects.engine import (
    command,
    drain_seconds,
    environment,
    probe,
    worker_command,
)
from daybreak.platform import Platform
from daybreak.ray.inputs import weights
from daybreak.ray.inputs.place import Place
from daybreak.ray.pods import pod_spec
from daybreak.scheduling.replica_size import worker_cpu, worker_need, worker_shared_memory

LEAVE_SECONDS = 5
"""Time in seconds that an engine continues after its pod begins to terminate. During that time gateways
receive the change, and send the pod no more requests."""
EXIT_SECONDS = 10
"""Maximum time in seconds that an engine needs to end after its last request."""


def template(server: ModelServer, platform: Platform) -> dict[str, Any]:
    """Return the template of the single pod of a replica."""
    found = _serving(server, platform)
    _mark(digest(found), found)
    return found


def group(server: ModelServer, platform: Platform) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the templates of the leader and of the workers of a replica on several nodes."""
    leader, worker = _serving(server, platform), _working(server, platform)
    _mark(digest([leader, worker]), leader, worker)
    return leader, worker


def _mark(configuration: str, *templates: dict[str, Any]) -> None:
    for each in templates:
        each["metadata"]["labels"][names.CONFIGURATION_LABEL] = configuration


def _serving(server: ModelServer, platform: Platform) -> dict[str, Any]:
    """Return a pod that receives requests; gateways find it by the label of its model."""
    labels = {names.MODEL_LABEL: names.worker_group(server.model.name)}
    grace = LEAVE_SECONDS + drain_seconds(server) + EXIT_SECONDS
    found = _pod(server, platform, names.SERVER_COMPONENT, labels, _ports(server), grace)
    container = found["spec"]["containers"][0]
    if server.profile.metrics_at is not None:
        message = at(found, "metadata", "annotations")
        found["metadata"]["annotations"] = {**_scraped(*server.profile.metrics_at), **message}
    container |= command(server, _weights(server))
    container["readinessProbe"] = probe(server)
    container["lifecycle"] = {"preStop": {"sleep": {"seconds": LEAVE_SECONDS}}}
    return found


def _working(server: ModelServer, platform: Platform) -> dict[str, Any]:
    """Return a pod that computes for a leader: it receives no requests and has none to finish.

    The worker stops after its leader. Its name is free only when it has ended, and the next pod waits for
    that name. An engine that ignores the signal to end, as the first process of a container may, must not
    stay as long as requests may take.
    """
    found = _pod(server, platform, names.SERVER_WORKER_COMPONENT, {}, {}, EXIT_SECONDS)
    found["spec"]["containers"][0] |= worker_command(server, _weights(server))
    return found


def _pod(
    server: ModelServer,
    platform: Platform,
    component: str,
    labels: dict[str, str],
    ports: dict[str, int],
    grace_seconds: int,
) -> dict[str, Any]:
    """Return a pod with the weights, devices and environment that its engine needs."""
    model, workload = server.model, server.workload
    need = worker_need(model)
    own = _weights(server)
    places = [pod_spec.memory_place(worker_shared_memory(model)), pod_spec.cache_place()]
    if own.volume is not None and own.mount is not None:
        places.append(Place(own.volume, own.mount))
    claim = model.accelerator.claim
    found = pod_spec.template(
        workload,
        platform,
        component=component,
        image=platform.image_of(workload),
        labels=labels,
        ports=ports,
        env=pod_spec.environment(workload, _environment(server, own), weights.environment(model)),
        requests=dict(need.requests),
        places=places,
        claim=None if claim is None else claim.template_name,
        overlay=model.pod_template,
        node_selector=dict(need.node_selector),
        tolerations=need.tolerations,
        grace_seconds=grace_seconds,
        container_name=ENGINE_CONTAINER,
    )
    # The engine's last log lines show why it did not start.
    found["spec"]["containers"][0]["terminationMessagePolicy"] = "FallbackToLogsOnError"
    return found


def _ports(server: ModelServer) -> dict[str, int]:
    """Return the ports by name; each number occurs once."""
    port = server.profile.port
    metrics = server.profile.metrics_at or (port, "")
    return {"http": port} | ({} if metrics[0] == port else {"metrics": metrics[0]})


def _scraped(port: int, path: str) -> dict[str, str]:
    """Return the annotations by which Prometheus and the chart's PodMonitor usually find metrics."""
    return {"prometheus.io/scrape": "true", "prometheus.io/port": str(port), "prometheus.io/path": path}


def _weights(server: ModelServer) -> weights.Weights:
    """Return the weights: the engine reads a bucket or a registry itself, without a copy by Ray."""
    source = ModelSource.parse(server.spec.model.source)
    match source.scheme:
        case Scheme.S3 | Scheme.GCS | Scheme.OLLAMA:
            return weights.Weights(source.reference)
        case Scheme.MLFLOW:
            return weights.Weights(f"models:/{source.reference}")
    return weights.weights(server.owner, server.model, server.spec.image_pull_policy)


def _environment(server: ModelServer, own: weights.Weights) -> dict[str, str]:
    model = server.model
    found = {"XDG_CACHE_HOME": pod_spec.CACHE_DIRECTORY} | environment(server, own)
    if server.image is not None:
        # A custom image may have a home directory that Daybreak's user cannot write to.
        found["HOME"] = pod_spec.CACHE_DIRECTORY
    if model.accelerator.kind is AcceleratorKind.GPU:
        return found | pod_spec.COMPILERS
    return found | {"OMP_NUM_THREADS": str(max(1, math.floor(parse_quantity(worker_cpu(model)))))}
