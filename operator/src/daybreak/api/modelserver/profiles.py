"""Engine profiles: how an engine starts in a container, and at which port and paths it answers.

The profiles are those of engines.yaml and those that an installation adds. An added profile that lacks a
required field, or has an unknown one, is left out, and the reason is kept.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Annotated, Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from daybreak.api.common.engine_args import nearest
from daybreak.api.common.source import Registry
from daybreak.api.gates.protocol import Protocol
from daybreak.api.schema.base import ApiModel, readable

EngineName = Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]
"""Name of an engine."""
CUSTOM = "custom"
"""Name of the engine that the spec itself describes."""
VALUES = ("weights", "model", "revision", "tensor", "pipeline", "nodes", "port", "drain", "cache")
"""Names that a template may contain in braces."""
OF_PATHS = ("model",)
"""Names that the template of a path may contain in braces."""
_NAMED = re.compile(r"\{([A-Za-z_]+)\}")


class Flags(StrEnum):
    """Format in which an engine takes its arguments by name."""

    VLLM = "vllm"
    """vLLM's format: checked against vLLM's list, and combined with the values of the spec's fields."""
    DASHES = "dashes"
    """Flags with dashes after all other arguments, as on most command lines."""
    UNDERSCORES = "underscores"
    """Flags with underscores after all other arguments."""
    NONE = "none"
    """No arguments by name."""


class Distributed(ApiModel):
    """Start of an engine in the pods of a replica on several nodes.

    The leader receives the requests, and the workers belong to it.

    Kubernetes replaces LeaderWorkerSet's variables in command and arguments: `$(LWS_LEADER_ADDRESS)` is the
    leader's address, `$(LWS_GROUP_SIZE)` the number of pods, and `$(LWS_WORKER_INDEX)` the index of the pod,
    which is 0 for the leader.
    """

    args: list[str] = Field(default_factory=list)
    """Additional arguments of all pods, as templates."""
    worker_command: list[str] | None = None
    """Command of a worker. Defaults to the leader's command."""
    worker_args: list[str] | None = None
    """Arguments of a worker. Defaults to the profile's `args` and `metricsArgs`."""

    @property
    def templates(self) -> Sequence[str]:
        """All templates."""
        return (*self.args, *(self.worker_command or ()), *(self.worker_args or ()))


class EngineProfile(ApiModel):
    """Profile of one engine."""

    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Image of the engine if the spec names none."""
    ray_image: bool = False
    """True if the default image is that of the installation's Ray pods."""
    command: list[str] = Field(default_factory=list)
    """Command of the container. Defaults to the image's command."""
    args: list[str] = Field(default_factory=list)
    """Arguments of the container, as templates."""
    hub_args: list[str] = Field(default_factory=list)
    """Additional arguments for a model of the Hugging Face Hub."""
    path_args: list[str] = Field(default_factory=list)
    """Additional arguments for a model at a path."""
    registry: Registry | None = None
    """Registry from which the engine loads a model itself. A source with this scheme names the model."""
    registry_args: list[str] = Field(default_factory=list)
    """Additional arguments for a model of the registry."""
    revision_args: list[str] = Field(default_factory=list)
    """Additional arguments for a model with a revision. Empty if the engine supports no revisions, or
    receives them in another way."""
    remote_code_args: list[str] = Field(default_factory=list)
    """Additional arguments if code from the model's repository may run. Empty if the engine cannot run such
    code, or is configured in another way."""
    metrics_args: list[str] = Field(default_factory=list)
    """Arguments that enable the engine's metrics. They are left out if `engineArgs` contains one of their
    names."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment variables, as templates. Variables of the spec take precedence."""
    distributed: Distributed | None = None
    """Start of a replica on several nodes. If unset, a replica cannot span several nodes."""
    hub: bool = True
    """True if the engine accepts a model of the Hugging Face Hub."""
    flag_style: Flags
    """Format of the arguments in `engineArgs`."""
    reserved_args: list[str] = Field(default_factory=list)
    """Names of arguments that fields of the spec set, without leading dashes."""
    port: Annotated[int, Field(ge=1, le=65535)]
    """Port on which the engine listens."""
    readiness_path: Annotated[str, Field(pattern="^/[!-~]*$")]
    """Path that returns 200 as soon as the engine accepts requests, as a template."""
    protocol: Protocol = Protocol.OPENAI
    """Protocol of the engine."""
    probe_path: Annotated[str, Field(pattern="^/[!-~]*$")] | None = None
    """Path that returns 200 when the model answers, as a template. If unset, the operator sends a request of
    the model's task with protocol `OpenAI`, and queries the readiness path with another protocol."""

    metrics_path: Annotated[str, Field(pattern="^/[!-~]*$")] | None = None
    """Path of the engine's metrics in Prometheus format. If unset, the engine has no metrics."""
    metrics_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Port of the engine's metrics. Defaults to `port`."""

    @property
    def metrics_at(self) -> tuple[int, str] | None:
        """Port and path of the engine's metrics, or None if it has none."""
        return None if self.metrics_path is None else (self.metrics_port or self.port, self.metrics_path)

    @property
    def of_container(self) -> Sequence[str]:
        """All templates of the container."""
        of_source = (*self.hub_args, *self.path_args, *self.registry_args)
        of_model = (*of_source, *self.revision_args, *self.remote_code_args)
        spread = self.distributed.templates if self.distributed is not None else ()
        return (*self.command, *self.args, *of_model, *spread, *self.env.values())

    @property
    def effective_probe_path(self) -> str:
        """Template of the path that returns 200 when the model answers.

        Empty if the operator probes the model with a request of its task.
        """
        return self.probe_path or ("" if self.protocol is Protocol.OPENAI else self.readiness_path)

    @property
    def taken(self) -> frozenset[str]:
        """Names of arguments that `engineArgs` must not contain, because the profile sets them."""
        written = (word[2:].partition("=")[0] for word in self.of_container if word.startswith("--"))
        return frozenset((*self.reserved_args, *map(flag_name, written)))

    @property
    def runs_remote_code(self) -> bool:
        """True if the engine has a setting to run code from the model's repository."""
        return self.flag_style is Flags.VLLM or bool(self.remote_code_args)

    @property
    def knows_revisions(self) -> bool:
        """True if the engine has a setting for a model's revision."""
        return self.flag_style is Flags.VLLM or any("{revision}" in each for each in self.of_container)


class Engines(Mapping[str, EngineProfile]):
    """Available engines by name.

    Attributes:
        refused: Reasons for which profiles of the installation are left out, by name.
    """

    def __init__(self, known: Mapping[str, EngineProfile], refused: Mapping[str, str] | None = None) -> None:
        self._known = dict(known)
        self.refused = dict(refused or {})

    def __getitem__(self, name: str) -> EngineProfile:
        return self._known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


_PROFILES = TypeAdapter(dict[EngineName, EngineProfile])
_OWN = TypeAdapter(dict[str, Any])


@cache
def profiles() -> Engines:
    """Return the built-in profiles, which are read once."""
    text = resources.files("daybreak.api.modelserver").joinpath("engines.yaml").read_text(encoding="utf-8")
    return Engines(_PROFILES.validate_python(yaml.safe_load(text)))


def with_own(text: str) -> Engines:
    """Return the built-in profiles and those of an installation: JSON in the form of engines.yaml.

    An invalid profile is left out, because it must not disable the other profiles or the operator. Raises
    ValidationError if the text is not a JSON object.
    """
    own: dict[str, EngineProfile] = {}
    refused: dict[str, str] = {}
    for name, message in _OWN.validate_json(text).items():
        try:
            read = _PROFILES.validate_python({name: message})[name]
        except ValidationError as error:
            refused[name] = readable(error, "engines")
            continue
        if wrong := [f"engines.{name}{each}" for each in _wrong(name, read)]:
            refused[name] = "; ".join(wrong)
        else:
            own[name] = read
    return Engines({**profiles(), **own}, refused)


def _wrong(name: str, profile: EngineProfile) -> Iterator[str]:
    if name in profiles():
        yield ": there is such an engine already; take another name"
    for wrong in unknown([*profile.of_container, *profile.metrics_args]):
        yield f": {wrong}"
    if profile.metrics_port is not None and profile.metrics_path is None:
        yield ".metricsPort: metricsPath is missing"
    for path, values in (("readinessPath", profile.readiness_path), ("probePath", profile.probe_path)):
        for wrong in unknown([values or ""], OF_PATHS):
            yield f".{path}: {wrong}"


def filled(templates: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Return the templates with their values. Names without a value stay unchanged."""
    return [_NAMED.sub(lambda found: values.get(found[1], found[0]), each) for each in templates]


def flag_name(name: str) -> str:
    """Return the name of an argument as a command line has it, with dashes."""
    return name.replace("_", "-")


def unknown(templates: Sequence[str], values: tuple[str, ...] = VALUES) -> Iterator[str]:
    """Yield an error for each name in the templates without a value, with the nearest known name."""
    for template in templates:
        for name in _NAMED.findall(template):
            if name not in values:
                near = nearest(name, values)
                hint = f"did you mean {{{near}}}?" if near else _listed(values)
                yield f"{{{name}}} has no value; {hint}"


def _listed(names: Sequence[str]) -> str:
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(f'{{{name}}}' for name in names)}"
