"""Validation of a well-formed spec: rules across fields, and limits of Ray and vLLM.

Rules within one type are in that type (`rules`), and the API server enforces them too. The rules here cannot
be expressed in CEL, or not well. Each problem is one sentence that begins with the field's path.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from daybreak import versions
from daybreak.api.common import engine_args, volume_names
from daybreak.api.gates import health_check_rules, schedule_rules
from daybreak.api.llmservice.definition import LLMService
from daybreak.api.pods import pod_owners, pod_rules
from daybreak.api.ray import lora_rules, model_rules
from daybreak.api.ray.model import Model
from daybreak.api.ray.routing import PrefixRouting, SessionRouting
from daybreak.api.ray.routing_policy import RoutingPolicy
from daybreak.api.schema.kubernetes_types import NamedVolume, VolumeMount

_ACCOUNT_NAME_LIMIT = 50
"""Maximum length of a ServiceAccount's name, in characters, that KubeRay 1.6 does not cut."""

_NOT_FOR_REPLICAS = {
    "VLLM_API_KEY": "replicas would refuse the gateway's requests; name keys in spec.access.apiKeys",
    "DAYBREAK_HTTP_PORT": "Daybreak sets it, and the gateway knows no other port; leave it out",
}
"""Environment variables that block the gateway from the direct port of replicas, with the cause and the
fix."""

VOLUME_SOURCES = (
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "cephfs",
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "fc",
    "flexVolume",
    "gcePersistentDisk",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "persistentVolumeClaim",
    "portworxVolume",
    "projected",
    "rbd",
    "secret",
    "vsphereVolume",
)
"""Sources of a pod volume, by Kubernetes' names."""


def problems(svc: LLMService) -> tuple[str, ...]:
    """Return each problem that prevents the spec from being built, as one sentence."""
    found: list[str] = []
    for number, model in enumerate(svc.spec.models):
        path = f"spec.models[{number}]"
        found += model_rules.problems(model, path, svc.spec.runtime, fixed=svc.spec.replicas is not None)
        found += _worker_template(svc, model, path)
    found += model_rules.tiny("spec.runtime.head.resources.memory", svc.spec.runtime.head.resources.memory)
    if svc.spec.hold is not None:
        found += model_rules.tiny("spec.hold.maxBodyBytes", svc.spec.hold.max_body_bytes)
    found += health_check_rules.problems(svc.spec.sleep, svc.spec.access)
    if svc.spec.sleep is not None:
        found += schedule_rules.problems("spec.sleep.schedule", svc.spec.sleep.schedule)
    found += model_rules.deployment_names(svc.spec.models)
    found += _colons(svc)
    found += lora_rules.problems(svc.workload)
    found += _ray_version(svc)
    found += _service_account(svc)
    found += _volumes(svc)
    found += _environment(svc)
    found += _head_template(svc)
    if svc.spec.runtime.metadata is not None:
        found += pod_rules.metadata_problems(svc.spec.runtime.metadata, "spec.runtime.metadata", cluster=True)
    return tuple(found)


def notices(svc: LLMService, *, gateway: bool) -> tuple[str, ...]:
    """Return fields without effect and fields that are not checked, each as one sentence."""
    found = []
    unused = [name for name in ("state", "sleep", "hold", "access") if getattr(svc.spec, name) is not None]
    if unused and not gateway:
        fields = " and ".join(f"spec.{name}" for name in unused)
        found.append(f"{fields} without effect: the gateway is turned off in this installation")
    if any(model.replicas.min == 0 for model in svc.spec.models) and not gateway:
        found.append("replicas.min: 0 means 1: without a gateway no request could wake the model")
    if any(model.lora is not None for model in svc.spec.models) and not gateway:
        found.append("models[].lora without effect: only a gateway leads requests to adapters")
    if gateway and svc.spec.runtime.direct_ingress:
        found += _routing_notices(svc)
    found += _loader_notices(svc)
    if any(model.engine.args for model in svc.spec.models) and model_rules.other_ray(svc.spec.runtime):
        found.append(
            f"engine arguments are not checked: the list is that of vLLM {versions.VLLM}, which Ray "
            f"{versions.RAY} brings, and the image has Ray {svc.spec.runtime.stated_ray_version}"
        )
    return tuple(found)


def _loader_notices(svc: LLMService) -> Iterator[str]:
    """Yield loaders that need a package missing in Daybreak's images.

    A custom image may have the package.
    """
    if svc.spec.runtime.image is not None:
        return
    for number, model in enumerate(svc.spec.models):
        loader = str(model.engine.args.get("load_format"))
        if loader in _NOT_IN_IMAGES:
            yield (
                f"spec.models[{number}].engine.args.load_format: {loader} needs {_NOT_IN_IMAGES[loader]}, "
                "which Daybreak's images do not have; set spec.runtime.image to a custom image"
            )


_NOT_IN_IMAGES = {
    "runai_streamer": "runai-model-streamer",
    "runai_streamer_sharded": "runai-model-streamer",
    "tensorizer": "tensorizer",
}
"""Packages that load formats of vLLM need."""
_SESSION_HEADER = "RAY_SERVE_SESSION_ID_HEADER_KEY"


def _routing_notices(svc: LLMService) -> Iterator[str]:
    """Yield settings of Ray Serve's routers without effect if the gateway selects replicas."""
    unused = []
    for number, model in enumerate(svc.spec.models):
        routing = model.routing
        if routing is None:
            continue
        path = f"spec.models[{number}].routing"
        if routing.session is not None and routing.session.virtual_nodes != SessionRouting().virtual_nodes:
            unused.append(f"{path}.session.virtualNodes")
        if routing.prefix is not None:
            given, default = routing.prefix, PrefixRouting()
            fields = ("match_rate_threshold", "eviction_threshold_chars", "eviction_target_chars")
            unused += [
                f"{path}.prefix.{PrefixRouting.model_fields[name].alias}"
                for name in fields
                if getattr(given, name) != getattr(default, name)
            ]
    sessions = any(
        model.routing is not None and model.routing.policy is RoutingPolicy.SESSION
        for model in svc.spec.models
    )
    if sessions and any(variable.name == _SESSION_HEADER for variable in svc.spec.runtime.env):
        unused.append(f"{_SESSION_HEADER} in spec.runtime.env (the gateway reads x-session-id)")
    if unused:
        yield (
            f"{' and '.join(unused)} without effect on what the gateway sends straight to replicas: "
            "only Serve's own routers have it, with spec.runtime.directIngress: false"
        )


def _ray_version(svc: LLMService) -> Iterator[str]:
    written, runtime = svc.spec.runtime.stated_ray_version, svc.spec.runtime
    if written and _numbers(written) < _numbers(versions.RAY_MINIMUM):
        field = "image" if runtime.ray_version is None else "rayVersion"
        yield (
            f"spec.runtime.{field}: Ray {written} is older than {versions.RAY_MINIMUM}, the oldest with "
            f"sound token authentication; use an image with {versions.RAY}"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def _colons(svc: LLMService) -> Iterator[str]:
    """Yield model names with a colon: Ray's own ingress reads a name only up to the colon."""
    for number, model in enumerate(svc.spec.models):
        if ":" in model.name and not svc.spec.runtime.direct_ingress:
            yield (
                f"spec.models[{number}].name: {model.name} has a colon, which needs "
                "spec.runtime.directIngress; use another name here, and make this one a name of an LLMRoute"
            )


def _service_account(svc: LLMService) -> Iterator[str]:
    account = svc.spec.runtime.service_account_name
    if account is not None and len(account) > _ACCOUNT_NAME_LIMIT:
        yield (
            f"spec.runtime.serviceAccountName: {account} has {len(account)} characters, of which KubeRay "
            f"keeps {_ACCOUNT_NAME_LIMIT}; use a shorter name"
        )


def _environment(svc: LLMService) -> Iterator[str]:
    """Yield variables that would break the direct port of replicas, and duplicate variables."""
    for number, variable in enumerate(svc.spec.runtime.env):
        if svc.spec.runtime.direct_ingress and variable.name in _NOT_FOR_REPLICAS:
            yield f"spec.runtime.env[{number}]: {variable.name}: {_NOT_FOR_REPLICAS[variable.name]}"
    yield from _twice("spec.runtime.env", "name", (variable.name for variable in svc.spec.runtime.env))


def _worker_template(svc: LLMService, model: Model, path: str) -> Iterator[str]:
    given = [volume.name for volume in [*svc.spec.runtime.volumes, *model.volumes]]
    mounts = [*svc.spec.runtime.volume_mounts, *model.volume_mounts]
    keys = svc.spec.access is not None and bool(svc.spec.access.api_keys)
    yield from model_rules.template_problems(model, path, given, mounts, keys=keys)
    yield from model_rules.cache_template_problems(model, path, given, mounts)


def _head_template(svc: LLMService) -> Iterator[str]:
    head = svc.spec.runtime.head
    if head.pod_template is None:
        return
    owner = pod_owners.ray_owner(
        "head",
        sizes="spec.runtime.head.resources",
        cpu=head.resources.cpu,
        volumes=[*(volume.name for volume in head.volumes), *volume_names.SHARED_VOLUMES],
        host_network="Ray's dashboard would be open at the node's address",
    )
    yield from pod_rules.problems(head.pod_template, "spec.runtime.head.podTemplate", owner)


def _volumes(svc: LLMService) -> Iterator[str]:
    runtime, head = svc.spec.runtime, svc.spec.runtime.head
    yield from _twice(
        "spec.runtime.imagePullSecrets", "name", [secret.name for secret in runtime.image_pull_secrets]
    )
    yield from _named_volumes("spec.runtime", runtime.volumes)
    yield from _mounts("spec.runtime", runtime.volume_mounts, runtime.volumes, svc.spec.models)
    yield from _named_volumes("spec.runtime.head", head.volumes)
    yield from _mounts("spec.runtime.head", head.volume_mounts, head.volumes, ())
    shared = {volume.name for volume in runtime.volumes}
    paths = {mount.mount_path.rstrip("/") for mount in runtime.volume_mounts}
    for number, model in enumerate(svc.spec.models):
        path = f"spec.models[{number}]"
        yield from _named_volumes(path, model.volumes)
        yield from _mounts(path, model.volume_mounts, [*runtime.volumes, *model.volumes], (model,))
        for at, volume in enumerate(model.volumes):
            if volume.name in shared:
                where = f"{path}.volumes[{at}].name"
                yield f"{where}: {volume.name} is in spec.runtime.volumes; use another name"
        for at, mount in enumerate(model.volume_mounts):
            if mount.mount_path.rstrip("/") in paths:
                yield (
                    f"{path}.volumeMounts[{at}].mountPath: {mount.mount_path} is in "
                    "spec.runtime.volumeMounts; use another path"
                )


def _named_volumes(where: str, volumes: Iterable[NamedVolume]) -> Iterator[str]:
    given = list(volumes)
    for number, volume in enumerate(given):
        path = f"{where}.volumes[{number}]"
        if pod_rules.owned_volume(volume.name):
            yield f"{path}.name: {volume.name} is the name of a volume of Daybreak's own; use another"
        yield from _volume_source(volume, path)
    yield from _twice(f"{where}.volumes", "name", [volume.name for volume in given])


def _mounts(
    where: str, mounts: Iterable[VolumeMount], volumes: Iterable[NamedVolume], models: Iterable[Model]
) -> Iterator[str]:
    given, known = list(mounts), [volume.name for volume in volumes]
    for number, mount in enumerate(given):
        path = f"{where}.volumeMounts[{number}]"
        if mount.name not in known:
            near = engine_args.nearest(mount.name, tuple(known))
            hint = f"did you mean {near}?" if near else "add it there"
            yield f"{path}.name: {where}.volumes has no {mount.name}; {hint}"
        for model in models:
            if mount.mount_path.rstrip("/") == volume_names.model_directory(model.name):
                yield f"{path}.mountPath: {mount.mount_path} is where the weights of {model.name} appear"
        if ".." in (mount.sub_path or "").split("/"):
            yield f"{path}.subPath: a path must not contain '..'"
    yield from _twice(f"{where}.volumeMounts", "mountPath", [mount.mount_path.rstrip("/") for mount in given])


def _volume_source(volume: NamedVolume, path: str) -> Iterator[str]:
    given = sorted(volume.model_extra or {})
    if len(given) != 1:
        what = f"has {len(given)} sources ({', '.join(given)})" if given else "has no source"
        yield f"{path}: {volume.name} {what}; give it one, such as persistentVolumeClaim or emptyDir"
    for source in given:
        if source not in VOLUME_SOURCES:
            near = engine_args.nearest(source, VOLUME_SOURCES)
            hint = f"; did you mean {near}?" if near else ""
            yield f"{path}.{source}: Kubernetes has no such volume source{hint}"


def _twice(path: str, key: str, values: Iterable[str]) -> Iterator[str]:
    """Yield one sentence for each duplicate value."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for number, value in enumerate(values):
        places[value].append(number)
    for value, numbers in places.items():
        if len(numbers) > 1:
            yield f"{path}[{numbers[1]}].{key}: {value} occurs {len(numbers)} times; it may occur once"
