"""Validation of a well-formed ModelServer: rules across fields that CEL cannot express."""

import re
from collections.abc import Collection, Iterator, Sequence

from daybreak import versions
from daybreak.api.common import engine_args, volume_names
from daybreak.api.common.source import REGISTRIES, ModelSource, Scheme
from daybreak.api.gates import health_check_rules, schedule_rules
from daybreak.api.modelserver.definition import ModelServer
from daybreak.api.modelserver.profiles import (
    CUSTOM,
    OF_PATHS,
    EngineProfile,
    Flags,
    flag_name,
    profiles,
    unknown,
)
from daybreak.api.pods import pod_owners, pod_rules
from daybreak.api.ray.model import AcceleratorKind, EngineArgs
from daybreak.api.schema.scalars import parse_quantity

ENGINE_CONTAINER = "engine"
"""Name of the engine's container."""
READ_IN_PLACE = ("runai_streamer", "runai_streamer_sharded", "tensorizer")
"""Load formats with which vLLM reads a bucket directly."""
_MEBIBYTE = 2**20
_SPREAD = ", ".join(name for name, profile in profiles().items() if profile.distributed is not None)
"""Names of the engines that support several nodes per replica."""
_NAME = "[a-z][a-z0-9_-]{0,62}"


def pinned_vllm(image: str) -> bool:
    """Return True if an image's tag names the pinned vLLM, as that of `vllm/vllm-openai:v1.2.3-cu130` does.

    The repository must name vLLM, because tags of other repositories may be versions of other software.
    """
    repository, _, tag = image.partition("@")[0].rpartition(":")
    return "vllm" in repository and re.fullmatch(rf"v?{re.escape(versions.VLLM)}(-.*)?", tag) is not None


def problems(server: ModelServer) -> tuple[str, ...]:
    """Return every problem that blocks the server, each as one sentence; empty if the spec is valid."""
    return (
        *_engine(server),
        *_unsupported_settings(server),
        *_source(server),
        *_sizes(server),
        *_claim(server),
        *_environment(server),
        *_template(server),
        *_schedule(server),
    )


def _engine(server: ModelServer) -> Iterator[str]:
    spec = server.spec
    profile = server.profile
    # CEL cannot read a map whose values have any type.
    match profile.flag_style:
        case Flags.NONE if spec.engine_args:
            instead = "spec.args" if spec.engine == CUSTOM else "spec.env"
            yield f"spec.engineArgs: engine {spec.engine} takes none; write {instead}"
            return
        case Flags.VLLM:
            other = server.image is not None and not pinned_vllm(server.image)
            for name, wrong in engine_args.problems(spec.engine_args or {}, other_vllm=other):
                yield f"spec.engineArgs.{name}: {wrong}"
        case Flags.DASHES | Flags.UNDERSCORES:
            yield from _plain(spec.engine_args or {}, profile.taken)
    for field, templates in (("command", spec.command), ("args", spec.args)):
        for wrong in unknown(templates or ()):
            yield f"spec.{field}: {wrong}"
    for wrong in unknown([spec.readiness_path or ""], OF_PATHS):
        yield f"spec.readinessPath: {wrong}"


def _unsupported_settings(server: ModelServer) -> Iterator[str]:
    """Yield a problem for each setting that the engine does not support."""
    engine, profile, model = server.spec.engine, server.profile, server.spec.model
    if server.image is None and not profile.ray_image:
        yield f"spec.image: engine {engine} needs one"
    if model.trust_remote_code and not profile.runs_remote_code:
        yield f"spec.model.trustRemoteCode: engine {engine} has no such option"
    if model.task is not None and server.answer_path:
        yield f"spec.model.task: engine {engine} is probed at {server.answer_path}; leave task out"
    if server.spec.nodes > 1 and profile.distributed is None:
        yield f"spec.nodes: engine {engine} is not known to span several; leave it at 1, or use {_SPREAD}"
    # The arguments of a custom engine may contain the revision.
    if model.revision is not None and not profile.knows_revisions and engine != CUSTOM:
        yield f"spec.model.revision: engine {engine} knows no revisions"
    if model.revision is None and any("{revision}" in each for each in _always(profile)):
        yield f"spec.model.revision: engine {engine} needs one, since {{revision}} is among its arguments"
    scheme = ModelSource.parse(model.source).scheme
    if not profile.hub and scheme is Scheme.HUGGING_FACE:
        yield f"spec.model.source: engine {engine} takes no hf:// model; use pvc://, image:// or file://"
    if scheme in REGISTRIES and scheme != profile.registry:
        yield f"spec.model.source: engine {engine} takes no {scheme}:// model; use engine {scheme}"


def _always(profile: EngineProfile) -> Sequence[str]:
    """Return the templates that a container uses with every model."""
    return (*profile.command, *profile.args, *profile.env.values())


def _plain(arguments: EngineArgs, taken: Collection[str]) -> Iterator[str]:
    for name, value in arguments.items():
        if not re.fullmatch(_NAME, name):
            yield f"spec.engineArgs: {name!r} is no name of an argument"
        elif flag_name(name) in taken:
            yield f"spec.engineArgs.{name}: the spec's own fields say it"
        elif isinstance(value, dict):
            yield f"spec.engineArgs.{name}: write text, a number, true, or a list of these"


def _source(server: ModelServer) -> Iterator[str]:
    spec = server.spec
    if ModelSource.parse(spec.model.source).scheme not in (Scheme.S3, Scheme.GCS):
        return
    if (
        server.profile.flag_style is Flags.VLLM
        and (spec.engine_args or {}).get("load_format") not in READ_IN_PLACE
    ):
        yield (
            "spec.model.source: nothing copies a bucket into the pod; use engineArgs.load_format "
            "runai_streamer, or another source"
        )


def _sizes(server: ModelServer) -> Iterator[str]:
    resources = server.spec.resources
    for name, quantity in (("memory", resources.memory), ("sharedMemory", resources.shared_memory)):
        if quantity is not None and parse_quantity(quantity) < _MEBIBYTE:
            yield f"spec.resources.{name}: {quantity} is less than 1Mi; write it with Mi or Gi"


def _claim(server: ModelServer) -> Iterator[str]:
    claim, parallelism = server.spec.accelerator.claim, server.spec.parallelism
    needed = parallelism.tensor * parallelism.pipeline // server.spec.nodes
    if claim is not None and claim.devices != needed:
        yield (
            f"spec.accelerator.claim.devices: a pod computes on {needed}, not on {claim.devices}; use a "
            f"template with {needed}, or another parallelism"
        )


def _environment(server: ModelServer) -> Iterator[str]:
    given = [variable.name for variable in server.spec.env]
    for name in dict.fromkeys(given):
        if given.count(name) > 1:
            yield f"spec.env: {name} occurs {given.count(name)} times; it may occur once"
    if server.spec.model.token is not None and "HF_TOKEN" in given:
        yield "spec.env: HF_TOKEN: use spec.model.token"


def _template(server: ModelServer) -> Iterator[str]:
    template, model = server.spec.pod_template, server.model
    if template is None:
        return
    in_a_volume = ModelSource.parse(model.source).scheme in (Scheme.CLAIM, Scheme.IMAGE)
    weights = volume_names.model_directory(model.name)
    keys = server.spec.access is not None and bool(server.spec.access.api_keys)
    own = [volume_names.SHARED_MEMORY_VOLUME, volume_names.CACHE_VOLUME]
    owner = pod_owners.engine_owner(
        ENGINE_CONTAINER,
        cpu=model.resources.cpu,
        port=server.profile.port,
        device="" if model.accelerator.kind is AcceleratorKind.CPU else model.accelerator.resource,
        volumes=[*own, volume_names.WEIGHTS_VOLUME] if in_a_volume else own,
        mounts={weights: f"there the weights of {model.name} appear"} if in_a_volume else {},
        variables={"HF_TOKEN": "use spec.model.token"} if model.token is not None else {},
        host_network="NetworkPolicies do not hold there, so spec.access would be passed by" if keys else "",
    )
    yield from pod_rules.problems(template, "spec.podTemplate", owner)


def _schedule(server: ModelServer) -> Iterator[str]:
    yield from health_check_rules.problems(server.spec.sleep, server.spec.access)
    if server.spec.sleep is not None:
        yield from schedule_rules.problems("spec.sleep.schedule", server.spec.sleep.schedule)
