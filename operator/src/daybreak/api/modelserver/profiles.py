"""Engine profiles: how an engine is started in a container, and where it answers.

The list is engines.yaml. One that lacks something, or says something unknown, is an error when it is read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Annotated

import yaml
from pydantic import Field, TypeAdapter

from daybreak.api.common.base import ApiModel
from daybreak.api.common.engine_args import nearest

VALUES = ("weights", "model", "port", "drain")
"""What a template may name."""
_NAMED = re.compile(r"\{([A-Za-z_]+)\}")


class EngineProfile(ApiModel):
    """One engine."""

    image: str
    """Image; empty: the installation's own image with vLLM, or what the spec names."""
    command: list[str]
    """Command; empty: the image's own."""
    args: list[str]
    """Arguments, as templates."""
    flags: bool
    """Whether arguments by name follow as flags."""
    port: Annotated[int, Field(ge=1, le=65535)]
    """Where it listens."""
    readiness_path: Annotated[str, Field(pattern="^/[!-~]*$")]
    """Path that answers 200 as soon as requests may come."""


@cache
def profiles() -> Mapping[str, EngineProfile]:
    """The list, read once, by the engine's name."""
    text = resources.files("daybreak.api.modelserver").joinpath("engines.yaml").read_text(encoding="utf-8")
    return TypeAdapter(dict[str, EngineProfile]).validate_python(yaml.safe_load(text))


def filled(templates: Sequence[str], values: Mapping[str, str]) -> list[str]:
    """Templates with their values. What is no name of `VALUES` stays as it is written."""
    return [_NAMED.sub(lambda found: values.get(found[1], found[0]), each) for each in templates]


def unknown(templates: Sequence[str]) -> Iterator[str]:
    """What is wrong with templates: names that have no value, each with the nearest one."""
    for template in templates:
        for name in _NAMED.findall(template):
            if name not in VALUES:
                near = nearest(name, VALUES)
                hint = f"did you mean {{{near}}}?" if near else "there are " + _listed(VALUES)
                yield f"{{{name}}} has no value; {hint}"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"{{{name}}}" for name in names)
