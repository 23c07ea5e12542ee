"""Engine profiles: how an engine is started in a container, and where it answers.

The list is engines.yaml, and what an installation adds to it. One of these that lacks something, or says
something unknown, is left out, with the reason.
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
from daybreak.api.gates.protocol import Protocol
from daybreak.api.schema.base import ApiModel, readable

EngineName = Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]
"""The name of an engine."""
CUSTOM = "custom"
"""The engine that the spec itself describes."""
VALUES = ("weights", "model", "revision", "tensor", "pipeline", "nodes", "port", "drain", "cache")
"""What a template may name."""
OF_PATHS = ("model",)
"""The same of a path."""
_NAMED = re.compile(r"\{([A-Za-z_]+)\}")


class Flags(StrEnum):
    """How an engine takes arguments by name."""

    VLLM = "vllm"
    """As vLLM does: checked against its list, with what fields of the spec say."""
    DASHES = "dashes"
    """As most command lines take them, after all others: with dashes."""
    UNDERSCORES = "underscores"
    """The same with underscores."""
    NONE = "none"
    """Not at all."""


class Distributed(ApiModel):
    """How an engine is started in the pods of a replica on several nodes: a leader, which takes the requests,
    and workers.

    In command and arguments Kubernetes puts LeaderWorkerSet's variables: `$(LWS_LEADER_ADDRESS)` is the
    leader's address, `$(LWS_GROUP_SIZE)` the number of pods, `$(LWS_WORKER_INDEX)` which of them it is, 0 the
    leader.
    """

    args: list[str] = Field(default_factory=list)
    """More arguments in all of them, as templates."""
    worker_command: list[str] | None = None
    """Command of a worker. Unset: the leader's."""
    worker_args: list[str] | None = None
    """Arguments of a worker in place of the profile's own `args` and `metricsArgs`. Unset: these."""

    @property
    def templates(self) -> Sequence[str]:
        """Every template."""
        return (*self.args, *(self.worker_command or ()), *(self.worker_args or ()))


class EngineProfile(ApiModel):
    """One engine."""

    image: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    """Its image, where the spec names none."""
    ray_image: bool = False
    """Whether that is the image of the installation's Ray pods."""
    command: list[str] = Field(default_factory=list)
    """Command; empty: the image's own."""
    args: list[str] = Field(default_factory=list)
    """Arguments, as templates."""
    hub_args: list[str] = Field(default_factory=list)
    """More of them for a model of the Hugging Face Hub."""
    path_args: list[str] = Field(default_factory=list)
    """More of them for a model at a path."""
    revision_args: list[str] = Field(default_factory=list)
    """More of them for a model with a revision; none: the engine knows no revisions, or is told otherwise."""
    remote_code_args: list[str] = Field(default_factory=list)
    """More of them where code of the model's repository may run; likewise."""
    metrics_args: list[str] = Field(default_factory=list)
    """Arguments that turn its metrics on; those of a name that `engineArgs` have are left to these."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment, as templates; what the spec says takes precedence."""
    distributed: Distributed | None = None
    """How a replica spans several nodes; unset: it cannot."""
    hub: bool = True
    """Whether it takes a model of the Hugging Face Hub."""
    flag_style: Flags
    """How arguments by name follow."""
    reserved_args: list[str] = Field(default_factory=list)
    """Names of arguments that fields of the spec stand for, without dashes in front."""
    port: Annotated[int, Field(ge=1, le=65535)]
    """Where it listens."""
    readiness_path: Annotated[str, Field(pattern="^/[!-~]*$")]
    """Path that answers 200 as soon as requests may come, as a template."""
    protocol: Protocol = Protocol.OPENAI
    """What it speaks."""
    probe_path: Annotated[str, Field(pattern="^/[!-~]*$")] | None = None
    """Path that answers 200 when the model does, as a template. Unset: with OpenAI's API it is asked for a
    completion, with another protocol the readiness path is asked."""

    metrics_path: Annotated[str, Field(pattern="^/[!-~]*$")] | None = None
    """Path of its metrics in Prometheus' format; unset: it has none."""
    metrics_port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Where they are; unset: at its port."""

    @property
    def metrics_at(self) -> tuple[int, str] | None:
        """Port and path of its metrics; None: it has none."""
        return None if self.metrics_path is None else (self.metrics_port or self.port, self.metrics_path)

    @property
    def of_container(self) -> Sequence[str]:
        """Every template of the container."""
        of_model = (*self.hub_args, *self.path_args, *self.revision_args, *self.remote_code_args)
        spread = self.distributed.templates if self.distributed is not None else ()
        return (*self.command, *self.args, *of_model, *spread, *self.env.values())

    @property
    def asked_at(self) -> str:
        """Template of the path that answers 200 when the model does; empty: it is asked for a completion."""
        return self.probe_path or ("" if self.protocol is Protocol.OPENAI else self.readiness_path)

    @property
    def taken(self) -> frozenset[str]:
        """Names of arguments that may not be given by name: the profile gives them."""
        written = (word[2:].partition("=")[0] for word in self.of_container if word.startswith("--"))
        return frozenset((*self.reserved_args, *map(flag_name, written)))

    @property
    def runs_remote_code(self) -> bool:
        """Whether it can be told to run code of the model's repository."""
        return self.flag_style is Flags.VLLM or bool(self.remote_code_args)

    @property
    def knows_revisions(self) -> bool:
        """Whether it can be told of a model's revision."""
        return self.flag_style is Flags.VLLM or any("{revision}" in each for each in self.of_container)


class Engines(Mapping[str, EngineProfile]):
    """The engines that there are, by name.

    Attributes:
        refused: Why profiles of the installation are not among them, by name.
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
    """The list of every installation, read once."""
    text = resources.files("daybreak.api.modelserver").joinpath("engines.yaml").read_text(encoding="utf-8")
    return Engines(_PROFILES.validate_python(yaml.safe_load(text)))


def with_own(text: str) -> Engines:
    """The list with an installation's own ones, which are JSON in the form of engines.yaml.

    A profile with something wrong is left out: it must keep neither the others nor the operator from their
    work. Raises ValidationError where the text is no JSON object.
    """
    own: dict[str, EngineProfile] = {}
    refused: dict[str, str] = {}
    for name, said in _OWN.validate_json(text).items():
        try:
            read = _PROFILES.validate_python({name: said})[name]
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
    """Templates with their values. What is no name of `VALUES` stays as it is written."""
    return [_NAMED.sub(lambda found: values.get(found[1], found[0]), each) for each in templates]


def flag_name(name: str) -> str:
    """The name of an argument as it stands on a command line."""
    return name.replace("_", "-")


def unknown(templates: Sequence[str], values: tuple[str, ...] = VALUES) -> Iterator[str]:
    """What is wrong with templates: names that have no value, each with the nearest one."""
    for template in templates:
        for name in _NAMED.findall(template):
            if name not in values:
                near = nearest(name, values)
                hint = f"did you mean {{{near}}}?" if near else _listed(values)
                yield f"{{{name}}} has no value; {hint}"


def _listed(names: Sequence[str]) -> str:
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(f'{{{name}}}' for name in names)}"
