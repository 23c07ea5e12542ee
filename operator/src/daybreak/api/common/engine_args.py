"""Engine arguments of the pinned vLLM, and validation of arguments against them.

The list is engine_args.json, which scripts/schemas/engine_args.py creates from the installed package.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from daybreak import versions


@dataclass(frozen=True)
class Argument:
    """Argument that `engine.args` may contain."""

    json: frozenset[str]
    """JSON types of a value. Empty if the list does not contain them."""
    choices: tuple[Any, ...]
    """Only allowed values, if they are few and fixed; otherwise empty."""


@dataclass(frozen=True)
class Catalogue:
    """Arguments of the pinned vLLM, and other names that Ray Serve LLM accepts."""

    arguments: Mapping[str, Argument]
    owned: Mapping[str, str]
    """Arguments that Daybreak sets itself, with the field to use instead."""
    refused: Mapping[str, str]
    """Arguments that have no effect or cause harm under Ray Serve, with the reason."""
    accelerator_types: tuple[str, ...]
    """Ray's names of GPUs."""


@cache
def catalogue() -> Catalogue:
    """Return the catalog; the list is read once."""
    text = resources.files("daybreak.api.common").joinpath("engine_args.json").read_text(encoding="utf-8")
    document = json.loads(text)
    arguments = {
        name: Argument(frozenset(entry["json"]), tuple(entry.get("choices", ())))
        for name, entry in document["arguments"].items()
    }
    return Catalogue(
        arguments=arguments,
        owned=document["owned"],
        refused=document["refused"],
        accelerator_types=tuple(document["accelerator_types"]),
    )


SUGGESTIONS = 8
"""Maximum number of unknown arguments per engine for which a similar name is searched. A search takes
milliseconds and blocks the operator."""
LONGEST_NAME = 64
"""Maximum length, in characters, of a name for which a similar name is searched. No argument of vLLM is that
long."""


def nearest(name: str, known: Mapping[str, Any] | tuple[str, ...]) -> str | None:
    """Return the known name that is most similar to a name, or None if there is none."""
    if len(name) > LONGEST_NAME:
        return None
    candidates = {_plain(candidate): candidate for candidate in known}
    found = get_close_matches(_plain(name), candidates, n=1, cutoff=0.6)
    return candidates[found[0]] if found else None


def _plain(name: str) -> str:
    """Return a name in vLLM's spelling.

    `--max-model-len` and `maxModelLen` both mean `max_model_len`.
    """
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.lstrip("-"))
    return apart.replace("-", "_").lower()


def problems(args: Mapping[str, Any], *, other_vllm: bool) -> Iterator[tuple[str, str]]:
    """Yield each rejected argument with the cause.

    With `other_vllm`, the image contains another vLLM than that of the list. That vLLM then checks unknown
    names and types itself, and Daybreak rejects only the arguments that it must reject itself.
    """
    known = catalogue()
    unknown = 0
    for name, value in args.items():
        if name in known.owned:
            yield name, f"Daybreak sets this argument; use the model's field {_field(known.owned[name])}"
        elif name in known.refused:
            yield name, f"it may not be set here: {known.refused[name]}"
        elif other_vllm:
            continue
        elif name not in known.arguments:
            unknown += 1
            yield name, _unknown(name) if unknown <= SUGGESTIONS else _UNKNOWN
        elif wrong := _wrong_value(value, known.arguments[name]):
            yield name, wrong


def _field(path: str) -> str:
    """Return a field's path below its model."""
    return path.removeprefix("spec.models[].")


_UNKNOWN = f"vLLM {versions.VLLM} has no such argument"


@lru_cache(maxsize=1024)
def _unknown(name: str) -> str:
    """Return the problem of an unknown argument.

    The result is cached, because every reconcile of a service checks the same name.
    """
    known = catalogue()
    near = nearest(name, {**known.arguments, **known.owned})
    if near is None:
        return f"{_UNKNOWN}, and none of a similar name"
    if near in known.owned:
        return f"{_UNKNOWN}; for {near} use the model's field {_field(known.owned[near])}"
    return f"{_UNKNOWN}; did you mean {near}?"


_WORDS = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "object": "an object",
    "string": "a text",
}


def _wrong_value(value: Any, argument: Argument) -> str | None:
    """Return the reason for which vLLM rejects the value, or None.

    vLLM parses a number from text and an integer from 8192.0, so both are valid. A boolean from text is
    invalid, because vLLM treats any text as true if it does not check the text.
    """
    if value is None or not argument.json:
        return None
    if not _fits(value, argument.json):
        desired = " or ".join(_WORDS[kind] for kind in sorted(argument.json - {"null"}))
        return f"{_written(value)} is not what vLLM {versions.VLLM} takes: write {desired}"
    choices = tuple(str(choice) for choice in argument.choices)
    # For some arguments, vLLM ignores case and accepts '-' for '_'.
    if choices and _plain(str(value)) not in map(_plain, choices):
        near = nearest(str(value), choices)
        hint = f"; did you mean {near}?" if near else ""
        return f"{_written(value)} is none of vLLM {versions.VLLM}'s choices ({', '.join(choices)}){hint}"
    return None


def _fits(value: Any, allowed: frozenset[str]) -> bool:
    match value:
        case bool():
            return "boolean" in allowed
        case int():
            return bool(allowed & {"integer", "number"}) or ("boolean" in allowed and value in (0, 1))
        case float():
            return "number" in allowed or ("integer" in allowed and value.is_integer())
        case str():
            return "string" in allowed or (bool(allowed & {"integer", "number"}) and _is_number(value))
        case list():
            return "array" in allowed
        case dict():
            return "object" in allowed
    return True


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _written(value: Any) -> str:
    """Return the value as JSON, cut if it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
