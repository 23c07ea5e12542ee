"""What is wrong with a spec of the right form: rules across fields, and against what Ray and vLLM take.

Rules within one type are the types' own (`rules`), kept by the API server too. Here stand those that CEL
cannot say, or cannot say well. Each problem is one sentence that begins with the field's path.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from daybreak import versions
from daybreak.api import engine_args, lora_rules, names, schedule_rules
from daybreak.api.kubernetes_types import NamedVolume
from daybreak.api.llmservice import LLMService
from daybreak.api.scalars import parse_quantity
from daybreak.api.spec import Model

_MEBIBYTE = 2**20
_LEAST_SHARED_MEMORY = 150
"""MiB of /dev/shm: Ray's object store lives in half of it, and begins with no less than 75 MiB."""
_ACCOUNT_NAME_LIMIT = 50
"""Longest name of a ServiceAccount of which KubeRay 1.6 does not clip anything."""

_NOT_FOR_REPLICAS = {
    "VLLM_API_KEY": "replicas would refuse the gateway's requests; name keys in spec.access.apiKeys",
    "DAYBREAK_HTTP_PORT": "Daybreak sets it, and the gateway knows no other port; leave it out",
}
"""Variables that keep the gateway from the replicas' own port."""

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
"""Where a pod volume can come from, by Kubernetes' names."""


def problems(svc: LLMService) -> tuple[str, ...]:
    """Everything that keeps the spec from being built, each as one sentence; empty when it can be."""
    found: list[str] = []
    for number, model in enumerate(svc.spec.models):
        path = f"spec.models[{number}]"
        found += _engine(svc, model, path)
        found += _accelerator(svc, model, path)
        found += _autoscaling(svc, model, path)
        found += _memory(model, path)
    found += _tiny("spec.runtime.head.resources.memory", svc.spec.runtime.head.resources.memory)
    if svc.spec.hold is not None:
        found += _tiny("spec.hold.maxBodyBytes", svc.spec.hold.max_body_bytes)
    if svc.spec.sleep is not None:
        found += schedule_rules.problems("spec.sleep.schedule", svc.spec.sleep.schedule)
    found += _deployment_names(svc.spec.models)
    found += lora_rules.problems(svc)
    found += _ray_version(svc)
    found += _service_account(svc)
    found += _volumes(svc)
    found += _environment(svc)
    return tuple(found)


def notices(svc: LLMService, *, gateway: bool) -> tuple[str, ...]:
    """What is accepted and does nothing here, or is not looked at, each as one sentence."""
    found = []
    unused = [name for name in ("state", "sleep", "hold", "access") if getattr(svc.spec, name) is not None]
    if unused and not gateway:
        fields = " and ".join(f"spec.{name}" for name in unused)
        found.append(f"{fields} without effect: the gateway is turned off in this installation")
    if any(model.lora is not None for model in svc.spec.models) and not gateway:
        found.append("models[].lora without effect: only a gateway leads requests to adapters")
    if any(model.engine.args for model in svc.spec.models) and _other_ray(svc):
        found.append(
            f"engine arguments are not checked: the list is that of vLLM {versions.VLLM}, which Ray "
            f"{versions.RAY} brings, and spec.runtime.rayVersion is {svc.spec.runtime.ray_version}"
        )
    return tuple(found)


def _other_ray(svc: LLMService) -> bool:
    """Whether the image is said to hold another Ray, and so another vLLM, than the operator is built for."""
    return svc.spec.runtime.ray_version not in (None, versions.RAY)


def _engine(svc: LLMService, model: Model, path: str) -> Iterator[str]:
    for name, wrong in engine_args.problems(model.engine.args, other_vllm=_other_ray(svc)):
        yield f"{path}.engine.args.{name}: {wrong}"


def _accelerator(svc: LLMService, model: Model, path: str) -> Iterator[str]:
    kind = model.accelerator.type
    known = engine_args.catalogue().accelerator_types
    if kind is None or kind in known or _other_ray(svc):
        return
    near = engine_args.nearest(kind, known)
    hint = f"; did you mean {near}?" if near else "; leave it out, and choose nodes with nodeSelector"
    yield f"{path}.accelerator.type: Ray {versions.RAY} has no accelerator {kind}{hint}"


def _autoscaling(svc: LLMService, model: Model, path: str) -> Iterator[str]:
    replicas, most = model.replicas, model.serve.max_ongoing_requests
    moves = svc.spec.replicas is None and replicas.max is not None and replicas.max > max(replicas.min, 1)
    target = replicas.target_ongoing_requests
    if moves and target is not None and target > most:
        yield (
            f"{path}.replicas.targetOngoingRequests: {target:g} is never reached, "
            f"since a replica takes at most {most} (serve.maxOngoingRequests); use {most} or less"
        )


def _memory(model: Model, path: str) -> Iterator[str]:
    resources = model.resources
    yield from _tiny(f"{path}.resources.memory", resources.memory)
    yield from _tiny(f"{path}.resources.sharedMemory", resources.shared_memory, _LEAST_SHARED_MEMORY)
    if resources.cpu is not None and parse_quantity(resources.cpu) == 0:
        yield f"{path}.resources.cpu: 0 is no request; leave it out, or write at least 100m"
    if resources.memory is None or resources.shared_memory is None:
        return
    if parse_quantity(resources.shared_memory) >= parse_quantity(resources.memory):
        yield (
            f"{path}.resources.sharedMemory: {resources.shared_memory} counts against memory "
            f"({resources.memory}), of which the engine needs a part; use at most {_half(resources.memory)}"
        )


def _tiny(path: str, quantity: str | None, least: int = 1) -> Iterator[str]:
    """Bytes below what can work, in MiB; below 1 it can only be a slip: `500m` is half a byte."""
    if quantity is not None and parse_quantity(quantity) < least * _MEBIBYTE:
        yield f"{path}: {quantity} is less than {least}Mi; write it with Mi or Gi"


def _half(quantity: str) -> str:
    half = parse_quantity(quantity) / 2 / _MEBIBYTE
    return f"{half.to_integral_value(rounding='ROUND_FLOOR')}Mi"


def _deployment_names(models: Iterable[Model]) -> Iterator[str]:
    """Ray Serve LLM replaces characters, so two names may become one."""
    seen: dict[str, str] = {}
    for number, model in enumerate(models):
        deployment = names.serve_deployment(model.name)
        if deployment in seen:
            yield (
                f"spec.models[{number}].name: {model.name} and {seen[deployment]} are both {deployment} to "
                "Ray Serve; rename one"
            )
        seen.setdefault(deployment, model.name)


def _ray_version(svc: LLMService) -> Iterator[str]:
    written = svc.spec.runtime.ray_version
    if written is not None and _numbers(written) < _numbers(versions.RAY_MINIMUM):
        yield (
            f"spec.runtime.rayVersion: {written} is older than {versions.RAY_MINIMUM}, the oldest with "
            f"sound token authentication; use an image with {versions.RAY}"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))


def _service_account(svc: LLMService) -> Iterator[str]:
    account = svc.spec.runtime.service_account_name
    if account is not None and len(account) > _ACCOUNT_NAME_LIMIT:
        yield (
            f"spec.runtime.serviceAccountName: {account} has {len(account)} characters, of which KubeRay "
            f"keeps {_ACCOUNT_NAME_LIMIT}; use a shorter name"
        )


def _environment(svc: LLMService) -> Iterator[str]:
    """Variables that would break the replicas' own port, and those that stand there twice."""
    for number, variable in enumerate(svc.spec.runtime.env):
        if svc.spec.runtime.direct_ingress and variable.name in _NOT_FOR_REPLICAS:
            yield f"spec.runtime.env[{number}]: {variable.name}: {_NOT_FOR_REPLICAS[variable.name]}"
    yield from _twice("spec.runtime.env", "name", (variable.name for variable in svc.spec.runtime.env))


def _volumes(svc: LLMService) -> Iterator[str]:
    runtime = svc.spec.runtime
    known = [volume.name for volume in runtime.volumes]
    for number, volume in enumerate(runtime.volumes):
        path = f"spec.runtime.volumes[{number}]"
        if volume.name.startswith(names.VOLUME_PREFIX) or volume.name in names.RESERVED_VOLUMES:
            yield f"{path}.name: {volume.name} is the name of a volume of Daybreak's own; use another"
        yield from _volume_source(volume, path)
    yield from _twice("spec.runtime.volumes", "name", known)
    yield from _twice(
        "spec.runtime.imagePullSecrets", "name", [secret.name for secret in runtime.image_pull_secrets]
    )
    for number, mount in enumerate(runtime.volume_mounts):
        path = f"spec.runtime.volumeMounts[{number}]"
        if mount.name not in known:
            near = engine_args.nearest(mount.name, tuple(known))
            hint = f"did you mean {near}?" if near else "add it there"
            yield f"{path}.name: spec.runtime.volumes has no {mount.name}; {hint}"
        for model in svc.spec.models:
            if mount.mount_path.rstrip("/") == names.model_directory(model.name):
                yield f"{path}.mountPath: {mount.mount_path} is where the weights of {model.name} appear"
        if ".." in (mount.sub_path or "").split("/"):
            yield f"{path}.subPath: '..' may not stand in a path"
    yield from _twice(
        "spec.runtime.volumeMounts",
        "mountPath",
        [mount.mount_path.rstrip("/") for mount in runtime.volume_mounts],
    )


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
    """One sentence for each value that stands more than once."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for number, value in enumerate(values):
        places[value].append(number)
    for value, numbers in places.items():
        if len(numbers) > 1:
            yield f"{path}[{numbers[1]}].{key}: {value} stands there {len(numbers)} times; once is allowed"
