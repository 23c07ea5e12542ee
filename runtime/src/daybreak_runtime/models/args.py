"""Arguments of an application of models: `args` of the manifest, checked before the deployment."""

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}


def seconds(written: Any) -> float:
    """Return the seconds of `5ms`, `2s`, `1m` or a number of seconds. Raises ValueError."""
    if isinstance(written, int | float) and not isinstance(written, bool):
        return float(written)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m)", str(written))
    if not found:
        raise ValueError(f"{written!r} is no duration such as 5ms or 2s")
    return float(found[1]) * _UNITS[found[2]]


class _Strict(BaseModel):  # type: ignore[misc,unused-ignore]
    """Model that rejects unknown names instead of ignoring them."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Batch(_Strict):
    """Dynamic batching, by Serve's own `serve.batch`."""

    maxSize: int = Field(gt=0, le=65536)  # noqa: N815 - the name in the args
    """Maximum rows of all requests in one call of `predict`."""
    wait: Annotated[float, BeforeValidator(seconds)] = Field(default=0.005, ge=0, le=60)
    """Maximum wait of the first request for others, in seconds or as `5ms`."""


class Version(_Strict):
    """Version of the model."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,63}$")
    source: str = ""
    weight: int = Field(default=0, ge=0)
    """Share of the requests that name no version."""
    default: bool = False
    """True if the version receives all requests that name no version."""
    load: bool = True
    """True if the version is loaded at the start."""


class Named(_Strict):
    """One of many models of the same class."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,255}$")
    source: str = ""


class Multiplex(_Strict):
    """Many small models on few replicas, by Serve's multiplexing.

    It evicts the least recently used model.
    """

    models: tuple[Named, ...] = Field(min_length=1)
    maxPerReplica: int = Field(default=3, gt=0)  # noqa: N815 - the name in the args
    """Maximum number of models that a replica has in memory."""


class Args(_Strict):
    """Arguments in `args`. Without any, one version called 1 is loaded."""

    name: str = Field(default="", pattern=r"^[A-Za-z0-9._-]{0,255}$")
    """Model name in the path. Defaults to the class's name in lower case."""
    source: str = ""
    """Source of the only version."""
    batch: Batch | None = None
    versions: tuple[Version, ...] = ()
    multiplex: Multiplex | None = None
    modelControl: bool = False  # noqa: N815 - the name in the args
    """True if clients may load and unload by the repository's paths."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the model: `self.settings`."""
    uses: dict[str, "Args"] = Field(default_factory=dict)
    """Arguments of the models that the application calls, by its names for them."""
    models: dict[str, Any] = Field(default_factory=dict)
    """LLMs of the same application, by their names; never written by users: `spec.llms` sets them."""

    @model_validator(mode="after")
    def _whole(self) -> "Args":
        names = [each.name for each in self.versions]
        if len(set(names)) != len(names):
            raise ValueError("two versions have one name")
        if sum(each.default for each in self.versions) > 1:
            raise ValueError("two versions are the default")
        if any(each.default for each in self.versions) and any(each.weight for each in self.versions):
            raise ValueError("versions have weights, or one of them is the default")
        if self.versions and self.source:
            raise ValueError("source is that of the only version: with versions, each has its own")
        if self.multiplex:
            if self.versions or self.source or self.name:
                raise ValueError("with multiplex, its models have names and sources, and one version each")
            if self.modelControl:
                raise ValueError(
                    "with multiplex, the first request loads a model, so modelControl is invalid"
                )
            named = [each.name for each in self.multiplex.models]
            if len(set(named)) != len(named):
                raise ValueError("two models have one name")
        return self

    def all_versions(self) -> tuple[Version, ...]:
        """Return the given versions, or the only one."""
        return self.versions or (Version(name="1", source=self.source),)
