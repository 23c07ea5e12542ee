"""Format of OpenAI's batch files: requests as input; results and errors as output, in two files."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from daybreak_runtime.batch.order import Request
from daybreak_runtime.batch.rows.row_error import RowError
from daybreak_runtime.jobs.json_text import encode_utf8

RESULTS, ERRORS = "output.jsonl", "errors.jsonl"
TASKS = {"/v1/chat/completions": "generate", "/v1/completions": "generate", "/v1/embeddings": "embed"}
"""Task of each request URL."""
_SAMPLING = (
    "temperature",
    "top_p",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "top_k",
    "min_p",
    "repetition_penalty",
    "min_tokens",
    "ignore_eos",
)
"""Fields of a body that vLLM's sampling parameters have by the same name."""
_TAKEN: Mapping[str, Collection[str]] = {
    "/v1/chat/completions": (
        "messages",
        "max_tokens",
        "max_completion_tokens",
        "chat_template_kwargs",
        *_SAMPLING,
    ),
    "/v1/completions": ("prompt", "max_tokens", "max_completion_tokens", *_SAMPLING),
    "/v1/embeddings": ("input",),
}
"""Fields that are applied, by URL; `model` and `response_format` are too."""
_WITHOUT_EFFECT = (
    "model",
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "stream",
    "stream_options",
    "parallel_tool_calls",
)
"""Fields that would not change an answer in a file, or that are checked elsewhere."""
_DEFAULTS: Mapping[str, Collection[Any]] = {
    "n": (1,),
    "best_of": (1,),
    "top_logprobs": (0,),
    "tools": ([],),
    "functions": ([],),
    "tool_choice": ("none", "auto"),
    "function_call": ("none", "auto"),
    "logit_bias": ({},),
    "echo": (False,),
    "suffix": ("",),
    "modalities": (["text"],),
    "encoding_format": ("float",),
}
"""Values of other fields that request the default behavior."""
_FORMATS = ("text", "json_object", "json_schema")
"""Types of `response_format`."""
_LOST = ("n", "logprobs", "prompt_logprobs")
"""Sampling parameters of vLLM whose outcome has no place in a row."""
_LOST_IN_TABLES = (*_LOST, "top_logprobs", "tools", "functions", "modalities", "audio")
"""Fields of a request to a service whose outcome has no column in a table."""
_LISTS = ("prompt", "input")
"""Fields that may hold several requests in one."""
_MAX_TOKENS = ("max_completion_tokens", "max_tokens")
"""Names of the same limit, the one that takes precedence first."""
_SCHEMAS = ("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar")
"""vLLM-specific fields that request a structure of the answer, as `response_format` does."""


def body(columns: Mapping[str, Any], task: str) -> tuple[str, Mapping[str, Any]]:
    """Return URL and body of a request. Raises RowError if it is invalid or of another task."""
    url, found = columns.get("url"), columns.get("body")
    if not isinstance(columns.get("custom_id"), str) or not isinstance(found, Mapping):
        raise RowError("no request of a batch file: custom_id, method, url and body are wanted")
    if columns.get("method", "POST") != "POST":
        raise RowError(f"method {columns['method']} is not served: use POST")
    if url not in TASKS:
        raise RowError(f"url {url} is not served: use one of {', '.join(TASKS)}")
    if TASKS[url] != task:
        raise RowError(f"url {url} is no {task}")
    return url, found


def refused(url: str, found: Mapping[str, Any]) -> list[str]:
    """Return the fields of a body that a batch's own model does not support."""
    return [
        name
        for name, value in found.items()
        if name not in _TAKEN[url]
        and name not in _WITHOUT_EFFECT
        and not (name == "response_format" and (value or {}).get("type", "text") in _FORMATS)
        and not _is_default(name, value)
    ]


def for_service(request: Request, url: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return a body as a service receives it, with the batch's own settings. Raises RowError.

    A row's own field takes precedence over `samplingParams`. `guidedJson` applies to every row, so a row that
    requests another structure of the answer is rejected.
    """
    given = {name for name, value in found.items() if value is not None}
    if given.intersection(_MAX_TOKENS):
        given.update(_MAX_TOKENS)
    own = {name: value for name, value in request.sampling_params.items() if name not in given}
    # A file has no streams. `stream` itself is a field of completions only.
    whole = {name: value for name, value in found.items() if name not in ("stream", "stream_options")} | own
    if TASKS[url] == "generate":
        whole["stream"] = False
    if url == "/v1/chat/completions":
        whole |= template_fields(request, found)
    if request.guided_json is not None:
        check_guided(request.guided_json, found)
        whole["response_format"] = response_format(request.guided_json)
    return whole


def template_fields(request: Request, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a chat by which a service applies the batch's chat template. Raises RowError."""
    kwargs = template_kwargs(request, found)
    fields = {"chat_template": found.get("chat_template") or request.chat_template}
    return {name: value for name, value in (fields | {"chat_template_kwargs": kwargs}).items() if value}


def template_kwargs(request: Request, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of the chat template: the batch's, overridden by a body's. Raises RowError."""
    own = found.get("chat_template_kwargs")
    if own is not None and not isinstance(own, Mapping):
        raise RowError("chat_template_kwargs is no object")
    return {**request.chat_template_kwargs, **(own or {})}


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field that requests answers of a JSON schema from a service."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}


def check_guided(schema: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise RowError if a body requests another structure of the answer than `spec.guidedJson`."""
    requested = [name for name in _SCHEMAS if found.get(name) is not None]
    form = found.get("response_format")
    if form is not None:
        kind = form.get("type") if isinstance(form, Mapping) else None
        inner = form.get("json_schema") if kind == "json_schema" else None
        same = isinstance(inner, Mapping) and inner.get("schema") == schema
        requested += [] if kind == "text" or same else ["response_format"]
    if requested:
        raise RowError(
            f"the row's {', '.join(requested)} contradicts spec.guidedJson, a schema for every answer: "
            "leave one of them out"
        )


def lost_in_table(found: Mapping[str, Any]) -> list[str]:
    """Return the fields of a request to a service that request more than a table has columns for."""
    none = found.get("tool_choice") == "none"
    names = [
        name
        for name in _LOST_IN_TABLES
        if not _is_default(name, found.get(name)) and not (none and name in ("tools", "functions"))
    ]
    return names + [name for name in _LISTS if _is_several(found.get(name))]


def not_in_table(names: Iterable[str]) -> RowError:
    """Return the error of a row that requests more than a table has columns for."""
    return RowError(
        f"the row requests {', '.join(names)}: a table has one text or vector for a row. "
        "Leave it out, or use input.format and output.format OpenAI"
    )


def _is_several(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 1 and all(isinstance(each, str | list) for each in value)


def lost(params: Mapping[str, Any]) -> list[str]:
    """Return the sampling parameters that request more than a row's one text."""
    return [name for name in _LOST if not _is_default(name, params.get(name))]


def not_given(names: Iterable[str]) -> RowError:
    """Return the error of a row that requests fields without support."""
    return RowError(
        f"the row requests {', '.join(names)}: a batch with `spec.model` writes one text or vector per row. "
        "Remove the field, or use serviceRef"
    )


def _is_default(name: str, value: Any) -> bool:
    # `0` is not `False` here: as `logprobs` of a completion it requests those of the text itself.
    return value is None or (name == "logprobs" and value is False) or value in _DEFAULTS.get(name, ())


def sampling_params(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return vLLM's sampling parameters of a body."""
    params = {name: found[name] for name in _SAMPLING if found.get(name) is not None}
    limits = [found[name] for name in _MAX_TOKENS if found.get(name) is not None]
    if limits:
        params["max_tokens"] = limits[0]
    kind = found.get("response_format") or {}
    if kind.get("type") == "json_schema":
        params["structured_outputs"] = {"json": (kind.get("json_schema") or {}).get("schema")}
    elif kind.get("type") == "json_object":
        params["structured_outputs"] = {"json_object": True}
    return params


def line(
    row: int, columns: Mapping[str, Any], answer: Mapping[str, Any], error: str, model: str, created: int
) -> tuple[bool, bytes]:
    """Return a line of a result or error file, after True if it is a result.

    Args:
        row: Number of the row.
        columns: The request.
        answer: Result of the row.
        error: Reason why there is no result; empty if there is one.
        model: Model name.
        created: Time of the answer, in seconds of Unix time.
    """
    custom_id = columns.get("custom_id")
    request = {"id": f"batch_req_{row}", "custom_id": custom_id}
    if error:
        message = {**request, "response": None, "error": {"code": "row_failed", "message": error}}
        return False, _line(message)
    body = _answer(row, columns, answer, model, created)
    found = {"status_code": 200, "request_id": f"req_{row}", "body": body}
    return True, _line({**request, "response": found, "error": None})


def _answer(
    row: int, columns: Mapping[str, Any], answer: Mapping[str, Any], model: str, created: int
) -> Mapping[str, Any]:
    if "body" in answer:
        return dict(answer["body"])  # from a service
    prompt, completion = answer.get("prompt_tokens") or 0, answer.get("completion_tokens") or 0
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    if columns.get("url") == "/v1/embeddings":
        del usage["completion_tokens"]
        data = [{"object": "embedding", "index": 0, "embedding": answer.get("response")}]
        return {"object": "list", "model": model, "data": data, "usage": usage}
    chat = columns.get("url") == "/v1/chat/completions"
    text = answer.get("response")
    message: Mapping[str, Any] = (
        {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    )
    return {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{row}",
        "object": "chat.completion" if chat else "text_completion",
        "created": created,
        "model": model,
        "choices": [
            {"index": 0, **message, "logprobs": None, "finish_reason": answer.get("finish_reason") or "stop"}
        ],
        "usage": usage,
    }


def _line(value: Mapping[str, Any]) -> bytes:
    return encode_utf8(json.dumps(value, ensure_ascii=False)) + b"\n"
