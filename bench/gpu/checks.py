"""Checks of the answers on a path: models, chat, stream, and an unknown model."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.gpu.ask import ask
from bench.gpu.processes import Failed

_QUESTION = [{"role": "user", "content": "Say something."}]
_TOKENS = 16


def checks(address: tuple[str, int], model: str, *, openai_errors: bool = True) -> dict[str, Any]:
    """Send the requests, and return for each whether the answer is right, and the answer if it is not.

    Args:
        address: Address of the path to the model.
        model: Name of the model.
        openai_errors: True if errors must have OpenAI's shape; those of Ray's own ingress do not have it.
    """
    found: dict[str, Any] = {}
    answer = ask(address, "GET", "/v1/models")
    names = [one["id"] for one in answer.json["data"]] if answer is not None and answer.status == 200 else []
    found["models"] = True if names == [model] else f"{names} {answer}"
    answer = ask(address, "POST", "/v1/chat/completions", _chat(model))
    found["chat"] = True if answer is not None and _good(answer.json) else str(answer)
    answer = ask(address, "POST", "/v1/chat/completions", _chat(model) | _STREAM)
    found["stream"] = True if answer is not None and _good_stream(answer.text) else str(answer)
    answer = ask(address, "POST", "/v1/chat/completions", _chat("no-such-model"))
    found["unknown_model"] = True if answer is not None and answer.status == 404 else str(answer)
    shape = answer.json if answer is not None else None
    if openai_errors:
        found["unknown_model_in_openai_shape"] = isinstance(shape, dict) and "error" in shape
    return found


def first_token(address: tuple[str, int], model: str) -> float:
    """Return the seconds until the answer to one short question. Raises Failed if it is not 200."""
    began = time.monotonic()
    answer = ask(address, "POST", "/v1/chat/completions", _chat(model) | {"max_tokens": 1})
    if answer is None or answer.status != 200:
        raise Failed(f"no first answer: {answer}")
    return time.monotonic() - began


def misplaced(strategy: str, groups: Sequence[Sequence[Mapping[str, Any]]], tensor: int) -> str:
    """Return the error in the placement of the single replica, or an empty string if the placement is right.

    Args:
        strategy: Placement strategy in the request to Ray.
        groups: For each placement group, its bundles with the node of each.
        tensor: Number of GPUs among which the replica divides a layer.
    """
    if tensor > 1 and strategy != "STRICT_PACK":
        return f"asked for with {strategy}"
    if len(groups) != 1:
        return f"{len(groups)} placement groups"
    if len(groups[0]) != tensor:
        return f"{len(groups[0])} bundles instead of {tensor}"
    nodes = {bundle["node"] for bundle in groups[0]}
    return "" if len(nodes) == 1 else f"its bundles are on {len(nodes)} nodes"


_STREAM = {"stream": True, "stream_options": {"include_usage": True}}


def _chat(model: str) -> dict[str, Any]:
    return {"model": model, "messages": _QUESTION, "max_tokens": _TOKENS, "ignore_eos": True}


def _good(answer: Any) -> bool:
    try:
        used = answer["usage"]["completion_tokens"]
        return bool(used == _TOKENS and answer["choices"][0]["message"]["content"])
    except (KeyError, TypeError, IndexError):
        return False


def _good_stream(text: str) -> bool:
    events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    if len(events) < 3 or events[-1] != "[DONE]":
        return False
    usage = json.loads(events[-2]).get("usage") or {}
    return bool(usage.get("completion_tokens") == _TOKENS)
