"""Ray pods of an application: the location of its code, and its worker groups."""

from dataclasses import replace
from typing import Any

from daybreak.api.common import names, volume_names
from daybreak.api.common.source import ModelSource, Scheme
from daybreak.api.ray.workload import RayWorkload
from daybreak.api.serveapplication.definition import ServeApplication
from daybreak.api.serveapplication.groups import Group
from daybreak.platform import Platform
from daybreak.ray import ports
from daybreak.ray.inputs.place import Place
from daybreak.ray.pods import pod_spec, workers
from daybreak.ray.pods.workers import EXIT_SECONDS, LEAST_DRAIN_SECONDS, probe
from daybreak.ray.quantities import whole_seconds
from daybreak.scheduling.replica_size import object_store_bytes, worker_need, worker_shared_memory


def code_places(application: ServeApplication) -> list[Place]:
    """Return the volume with the code, or none if the code has another source."""
    code = application.spec.code
    if code is None:
        return []
    volume: dict[str, Any]
    path = ""
    if code.config_map is not None:
        volume = {"configMap": {"name": code.config_map}}
    elif code.working_dir is not None and code.working_dir.startswith(("pvc://", "image://")):
        source = ModelSource.parse(code.working_dir)
        path = source.path
        if source.scheme is Scheme.CLAIM:
            volume = {"persistentVolumeClaim": {"claimName": source.reference, "readOnly": True}}
        else:
            policy = application.spec.runtime.image_pull_policy
            volume = {"image": {"reference": source.reference, "pullPolicy": policy}}
    else:
        return []
    mount: dict[str, Any] = {
        "name": volume_names.CODE_VOLUME,
        "mountPath": volume_names.CODE_DIRECTORY,
        "readOnly": True,
    }
    if path:
        mount["subPath"] = path
    return [Place({"name": volume_names.CODE_VOLUME, **volume}, mount)]


def code_environment(application: ServeApplication) -> dict[str, str]:
    """Return the environment by which Python finds the code."""
    return {"PYTHONPATH": volume_names.CODE_DIRECTORY} if code_places(application) else {}


def drain_seconds(application: ServeApplication) -> int:
    """Return the time in seconds that requests have to end when pods stop."""
    spec = application.spec
    given = [each.graceful_shutdown_timeout for each in spec.deployments]
    given += [each.serve.graceful_shutdown_timeout for each in spec.llms]
    return max(LEAST_DRAIN_SECONDS, *map(whole_seconds, given))


def with_llms_away(application: ServeApplication, *, away: bool) -> RayWorkload:
    """Return the workload for objects of its LLMs; with `away`, the LLMs have no pods."""
    asleep = frozenset(model.name for model in application.spec.llms) if away else frozenset()
    return replace(application.workload, asleep=asleep)


def llm_groups(application: ServeApplication, platform: Platform, *, away: bool) -> list[dict[str, Any]]:
    """Return the worker groups of the LLMs.

    Their pods have the application's code too, because Ray builds an application in any of its pods.
    """
    workload, found = with_llms_away(application, away=away), []
    for model in application.spec.llms:
        group = workers.worker_group(workload, model, platform)
        pod = group["template"]["spec"]
        for place in code_places(application):
            pod["volumes"].append(place.volume)
            pod["containers"][0]["volumeMounts"].append(place.mount)
        pod["containers"][0]["env"] += [
            {"name": name, "value": value} for name, value in code_environment(application).items()
        ]
        # The pods have no Serve proxy that KubeRay's own probe could query.
        pod["containers"][0]["readinessProbe"] = probe()
        found.append(group)
    return found


def worker_group(
    application: ServeApplication, group: Group, platform: Platform, *, away: bool = False
) -> dict[str, Any]:
    """Return a group's entry in the RayCluster's `workerGroupSpecs`; with `away`, it has no pods."""
    fewest = 0 if away else group.fewest
    workload, need, drain = application.workload, worker_need(group.pod), drain_seconds(application)
    shared_memory = worker_shared_memory(group.pod)
    environment = {
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": str(drain),
        "XDG_CACHE_HOME": pod_spec.CACHE_DIRECTORY,
        **code_environment(application),
    }
    if group.accelerators:
        environment |= pod_spec.COMPILERS
    elif workload.on_accelerators:
        environment |= pod_spec.NO_DEVICES
    template = pod_spec.template(
        workload,
        platform,
        component="worker",
        image=platform.image_of(workload),
        labels={names.MODEL_LABEL: group.name},
        ports=ports.WORKER_PORTS_WITHOUT_DIRECT,
        env=pod_spec.environment(workload, environment),
        requests=dict(need.requests),
        places=[
            pod_spec.memory_place(shared_memory),
            pod_spec.log_place(),
            pod_spec.cache_place(),
            *code_places(application),
        ],
        node_selector=dict(need.node_selector),
        tolerations=need.tolerations,
        grace_seconds=drain + EXIT_SECONDS,
        own_volumes=workload.runtime.volumes,
        own_mounts=workload.runtime.volume_mounts,
        overlay=group.pod.pod_template,
    )
    # The pods have no Serve proxy that KubeRay's own probe could query.
    template["spec"]["containers"][0]["readinessProbe"] = probe()
    return {
        "groupName": group.name,
        "replicas": fewest,
        "minReplicas": fewest,
        "maxReplicas": group.most,
        "numOfHosts": 1,
        "rayStartParams": {"object-store-memory": str(object_store_bytes(shared_memory))},
        "resources": {
            "CPU": str(group.ray_cpus),
            "GPU": str(group.accelerators),
            names.group_resource(group.name): "1",
        },
        "template": template,
    }
