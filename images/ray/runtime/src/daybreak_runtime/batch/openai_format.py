"""OpenAI's batch files: requests in; results and errors out, in two files."""

import json
from collections.abc import Mapping
from typing import Any

from daybreak_runtime.batch.row_error import RowError

RESULTS, ERRORS = "output.jsonl", "errors.jsonl"
TASKS = {"/v1/chat/completions": "generate", "/v1/completions": "generate", "/v1/embeddings": "embed"}
"""What each URL of a request asks for."""
_SAMPLING = (
    "temperature",
    "top_p",
    "n",
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


def body(columns: Mapping[str, Any], task: str) -> tuple[str, Mapping[str, Any]]:
    """URL and body of a request. Raises RowError when it is none, or is not for the task."""
    url, found = columns.get("url"), columns.get("body")
    if not isinstance(columns.get("custom_id"), str) or not isinstance(found, Mapping):
        raise RowError("no request of a batch file: custom_id, method, url and body are wanted")
    if url not in TASKS:
        raise RowError(f"url {url} is not served: use one of {', '.join(TASKS)}")
    if TASKS[url] != task:
        raise RowError(f"url {url} is no {task}")
    return url, found


def sampling_params(found: Mapping[str, Any]) -> dict[str, Any]:
    """vLLM's sampling parameters of a body."""
    params = {name: found[name] for name in _SAMPLING if found.get(name) is not None}
    most = found.get("max_completion_tokens", found.get("max_tokens"))
    if most is not None:
        params["max_tokens"] = most
    kind = found.get("response_format") or {}
    if kind.get("type") == "json_schema":
        params["structured_outputs"] = {"json": (kind.get("json_schema") or {}).get("schema")}
    elif kind.get("type") == "json_object":
        params["structured_outputs"] = {"json_object": True}
    return params


def line(
    row: int, columns: Mapping[str, Any], answer: Mapping[str, Any], error: str, model: str
) -> tuple[bool, bytes]:
    """A line of a result or error file; whether it is a result."""
    custom_id = columns.get("custom_id")
    request = {"id": f"batch_req_{row}", "custom_id": custom_id}
    if error:
        said = {**request, "response": None, "error": {"code": "row_failed", "message": error}}
        return False, _line(said)
    found = {"status_code": 200, "request_id": f"req_{row}", "body": _answer(row, columns, answer, model)}
    return True, _line({**request, "response": found, "error": None})


def _answer(row: int, columns: Mapping[str, Any], answer: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    if "body" in answer:
        return dict(answer["body"])  # a service's own
    prompt, completion = answer.get("prompt_tokens", 0), answer.get("completion_tokens", 0)
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    if columns.get("url") == "/v1/embeddings":
        data = [{"object": "embedding", "index": 0, "embedding": answer.get("response")}]
        return {"object": "list", "model": model, "data": data, "usage": usage}
    chat = columns.get("url") == "/v1/chat/completions"
    text = answer.get("response")
    said: Mapping[str, Any] = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
    return {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{row}",
        "object": "chat.completion" if chat else "text_completion",
        "model": model,
        "choices": [{"index": 0, **said, "finish_reason": answer.get("finish_reason") or "stop"}],
        "usage": usage,
    }


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"
