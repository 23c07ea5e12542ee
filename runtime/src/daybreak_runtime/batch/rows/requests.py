"""Conversion of rows to requests: templates run in a sandbox, and any error is the row's own."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, StrictUndefined, Template, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from daybreak_runtime.batch.order import Request
from daybreak_runtime.batch.rows import images
from daybreak_runtime.batch.rows.row_error import RowError
from daybreak_runtime.jobs.json_text import find_surrogate
from daybreak_runtime.jobs.problem import JobProblem
from daybreak_runtime.jobs.tables import HALF_OF_A_PAIR

TEMPLATE_INVALID = "TemplateInvalid"
PROMPT_LIMIT = 16 * 2**20
"""Maximum characters of one prompt: a loop in a template must not fill the memory."""
ROW = "row"
"""Name by which a template has all columns of its row."""
_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)


def environment() -> Environment:
    """Return the environment in which templates are compiled and run."""
    return _ENVIRONMENT


@cache
def _template(text: str) -> Template:
    return _ENVIRONMENT.from_string(text)


def check(request: Request) -> None:
    """Compile every template once. Raises JobProblem if one is invalid."""
    texts = [("spec.prompt", request.prompt)] if request.prompt is not None else []
    texts += [(f"spec.messages[{n}]", each["content"]) for n, each in enumerate(request.messages)]
    for path, text in texts:
        try:
            _template(text or "")
        except TemplateSyntaxError as error:
            raise JobProblem(TEMPLATE_INVALID, f"{path}: line {error.lineno}: {error.message}") from error


def render(text: str, columns: Mapping[str, Any]) -> str:
    """Render a template with a row's columns, and `row`, which has all of them. Raises RowError."""
    parts: list[str] = []
    length = 0
    try:
        for part in _template(text).generate({**columns, ROW: columns}):
            length += len(part)
            if length > PROMPT_LIMIT:
                raise RowError(f"the template makes more than {PROMPT_LIMIT} characters")
            parts.append(part)
    except RowError:
        raise
    except Exception as error:
        raise RowError(f"the template fails: {type(error).__name__}: {error}") from error
    return "".join(parts)


def messages(request: Request, columns: Mapping[str, Any], *, remote: bool) -> list[dict[str, Any]]:
    """Return a row's messages in OpenAI's format; column images begin the user's last one. Raises RowError.

    Args:
        request: Rules for making a request from a row.
        columns: The row.
        remote: True if an image may be fetched from elsewhere.
    """
    if request.messages_column is not None:
        found = column(columns, request.messages_column)
        if isinstance(found, str):
            found = _json(request.messages_column, found)
        if not isinstance(found, list) or not found or not all(_is_message(each) for each in found):
            raise RowError(f"column {request.messages_column} holds no messages: a list of role and content")
        message = [dict(each) for each in found]
    elif request.messages:
        message = [
            {"role": each["role"], "content": render(each["content"], columns)} for each in request.messages
        ]
    else:
        message = [{"role": "user", "content": render(request.prompt or "", columns)}]
    if request.images:
        found = pictures(request, columns, remote=remote)
        last = next((each for each in reversed(message) if each["role"] == "user"), message[-1])
        own = last["content"]
        rest = own if isinstance(own, list) else [{"type": "text", "text": own}]
        last["content"] = [*({"type": "image_url", "image_url": {"url": url}} for url in found), *rest]
    return message


def pictures(request: Request, columns: Mapping[str, Any], *, remote: bool) -> list[str]:
    """Return the images of a row's columns, as URLs. Raises RowError."""
    return [images.url(column(columns, name), f"column {name}", remote=remote) for name in request.images]


def sampling_params(request: Request, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a row: the batch's, overridden by the row's own. Raises RowError."""
    params = dict(request.sampling_params)
    if request.sampling_params_column is not None:
        own = column(columns, request.sampling_params_column)
        if isinstance(own, str):
            own = _json(request.sampling_params_column, own) if own.strip() else {}
        if own is not None and not isinstance(own, Mapping):
            raise RowError(f"column {request.sampling_params_column} holds no object of parameters")
        params |= {name: value for name, value in (own or {}).items() if value is not None}
    return params


def column(columns: Mapping[str, Any], name: str) -> Any:
    """Return the value of a column. Raises RowError if the row has no such column."""
    try:
        return columns[name]
    except KeyError as error:
        raise RowError(f"the row has no column {name}; it has {', '.join(columns) or 'none'}") from error


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and "role" in value and "content" in value


def _json(name: str, text: str) -> Any:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RowError(f"column {name} is no JSON: {error}") from error
    if find_surrogate(found):
        raise RowError(f"column {name} holds {HALF_OF_A_PAIR}")
    return found
