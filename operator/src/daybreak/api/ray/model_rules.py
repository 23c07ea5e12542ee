"""Validation of a model of any Ray workload: rules that CEL cannot express, or not well.

Each problem is one sentence that begins with the field's path.
"""

from collections.abc import Iterable, Iterator

from daybreak import versions
from daybreak.api.common import engine_args, names, volume_names
from daybreak.api.common.source import ModelSource, Scheme
from daybreak.api.pods import pod_owners, pod_rules
from daybreak.api.ray.model import AcceleratorKind, Model, Placement
from daybreak.api.ray.runtime import Runtime
from daybreak.api.schema.kubernetes_types import VolumeMount
from daybreak.api.schema.scalars import parse_quantity

_MEBIBYTE = 2**20
_LEAST_SHARED_MEMORY = 150
"""Minimum size of `/dev/shm` in MiB. Ray's object store uses half of it, and starts with at least 75 MiB."""


def problems(model: Model, path: str, runtime: Runtime, *, fixed: bool = False) -> Iterator[str]:
    """Yield every problem of a model at a path of a spec.

    If `fixed` is true, another field sets the number of replicas.
    """
    other = other_ray(runtime)
    yield from _engine(model, path, other_vllm=other)
    if not other:
        yield from _accelerator(model, path)
    if not fixed:
        yield from _autoscaling(model, path)
    yield from _memory(model, path)
    yield from _claim(model, path)


def other_ray(runtime: Runtime) -> bool:
    """Return True if the spec states a Ray version that the operator is not built for.

    Another Ray version means another vLLM.
    """
    return runtime.stated_ray_version not in ("", versions.RAY)


def tiny(path: str, quantity: str | None, least: int = 1) -> Iterator[str]:
    """Yield a problem if a quantity of bytes is below `least`, in MiB.

    A smaller number than 1 MiB can only be a mistake: `500m` is half a byte.
    """
    if quantity is not None and parse_quantity(quantity) < least * _MEBIBYTE:
        yield f"{path}: {quantity} is less than {least}Mi; write it with Mi or Gi"


def deployment_names(models: Iterable[Model], field: str = "models") -> Iterator[str]:
    """Yield a problem for each model with the deployment name of another model.

    Ray Serve LLM replaces characters, so two names may become one.
    """
    taken: dict[str, str] = {}
    for number, model in enumerate(models):
        deployment = names.serve_deployment(model.name)
        if deployment in taken:
            yield (
                f"spec.{field}[{number}].name: {model.name} and {taken[deployment]} are both {deployment} to "
                "Ray Serve; rename one"
            )
        taken.setdefault(deployment, model.name)


def template_problems(
    model: Model, path: str, volumes: Iterable[str], mounts: Iterable[VolumeMount], *, keys: bool
) -> Iterator[str]:
    """Yield the problems of a model's `podTemplate`.

    Args:
        model: The model.
        path: Path of the model in the spec.
        volumes: Names of the volumes that other fields add to the model's worker pods.
        mounts: Mounts that other fields add to the containers.
        keys: True if requests need an API key.
    """
    template, weights = model.pod_template, volume_names.model_directory(model.name)
    if template is None:
        return
    in_a_volume = ModelSource.parse(model.source).scheme in (Scheme.CLAIM, Scheme.IMAGE)
    own = [*volume_names.SHARED_VOLUMES]
    if all(mount.mount_path.rstrip("/") != volume_names.CACHE_DIRECTORY for mount in mounts):
        own.append(volume_names.CACHE_VOLUME)
    if in_a_volume:
        own.append(volume_names.WEIGHTS_VOLUME)
    owner = pod_owners.ray_owner(
        "worker",
        sizes=f"{path}.resources",
        cpu=model.resources.cpu,
        device="" if model.accelerator.kind is AcceleratorKind.CPU else model.accelerator.resource,
        volumes=[*volumes, *own],
        mounts={weights: f"there the weights of {model.name} appear"} if in_a_volume else {},
        variables={"HF_TOKEN": f"use {path}.token"} if model.token is not None else {},
        host_network="NetworkPolicies do not hold there, so spec.access would be passed by" if keys else "",
    )
    yield from pod_rules.problems(template, f"{path}.podTemplate", owner)


def cache_template_problems(
    model: Model, path: str, volumes: Iterable[str], mounts: Iterable[VolumeMount]
) -> Iterator[str]:
    """Yield the problems of the `podTemplate` of a model's cache.

    Args:
        model: The model.
        path: Path of the model in the spec.
        volumes: Names of the volumes that other fields add to the model's Ray pods.
        mounts: Mounts that other fields add to the containers.
    """
    template = None if model.cache is None else model.cache.pod_template
    if template is None:
        return
    taken = {mount.mount_path.rstrip("/"): "its Ray pods mount a volume there" for mount in mounts}
    owner = pod_owners.fill_owner(
        volumes=[*volumes], mounts={volume_names.CLAIM_DIRECTORY: "there the claim appears", **taken}
    )
    yield from pod_rules.problems(template, f"{path}.cache.podTemplate", owner)


def _engine(model: Model, path: str, *, other_vllm: bool) -> Iterator[str]:
    for name, wrong in engine_args.problems(model.engine.args, other_vllm=other_vllm):
        yield f"{path}.engine.args.{name}: {wrong}"


def _accelerator(model: Model, path: str) -> Iterator[str]:
    kind = model.accelerator.type
    known = engine_args.catalogue().accelerator_types
    if kind is None or kind in known:
        return
    near = engine_args.nearest(kind, known)
    hint = f"; did you mean {near}?" if near else "; leave it out, and choose nodes with nodeSelector"
    yield f"{path}.accelerator.type: Ray {versions.RAY} has no GPU {kind}{hint}"


def _autoscaling(model: Model, path: str) -> Iterator[str]:
    replicas, most = model.replicas, model.serve.max_ongoing_requests
    moves = replicas.max is not None and replicas.max > max(replicas.min, 1)
    target = replicas.target_ongoing_requests
    if moves and target is not None and target > most:
        yield (
            f"{path}.replicas.targetOngoingRequests: {target:g} is never reached, "
            f"since a replica takes at most {most} (serve.maxOngoingRequests); use {most} or less"
        )


def _memory(model: Model, path: str) -> Iterator[str]:
    resources = model.resources
    yield from tiny(f"{path}.resources.memory", resources.memory)
    yield from tiny(f"{path}.resources.sharedMemory", resources.shared_memory, _LEAST_SHARED_MEMORY)
    if resources.cpu is not None and parse_quantity(resources.cpu) == 0:
        yield f"{path}.resources.cpu: 0 is no request; leave it out, or write at least 100m"
    if resources.memory is None or resources.shared_memory is None:
        return
    if parse_quantity(resources.shared_memory) >= parse_quantity(resources.memory):
        yield (
            f"{path}.resources.sharedMemory: {resources.shared_memory} counts against memory "
            f"({resources.memory}), of which the engine needs a part; use at most {_half(resources.memory)}"
        )


def _half(quantity: str) -> str:
    half = parse_quantity(quantity) / 2 / _MEBIBYTE
    return f"{half.to_integral_value(rounding='ROUND_FLOOR')}Mi"


def _claim(model: Model, path: str) -> Iterator[str]:
    """Yield a problem if a claim's stated devices differ from those that a worker pod uses."""
    claim, parallelism = model.accelerator.claim, model.parallelism
    if claim is None:
        return
    # A pod is a whole replica, or one stage of its pipeline.
    whole = model.placement is Placement.STRICT_PACK
    needed = parallelism.tensor * (parallelism.pipeline if whole else 1)
    if claim.devices != needed:
        yield (
            f"{path}.accelerator.claim.devices: a worker pod of this model computes on {needed}, not on "
            f"{claim.devices}; use a template with {needed}, or another parallelism"
        )
