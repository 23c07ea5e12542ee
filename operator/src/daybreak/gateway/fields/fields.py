"""Which fields of a request's body pass to the engine, by path: a list of what is allowed.

`request_fields.json`, which `scripts/schemas/request_fields.py` makes, has the fields that the pinned vLLM
knows. They pass, but for those that are named here. A field that vLLM does not know is refused as well: what
a later version does with it nobody has looked at. A service lets more pass by `spec.access.extraFields`.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

MAX_ITEMS = 2048
"""The longest list of prompts, inputs or documents; as many as OpenAI's embeddings take."""

MAX_CHOICES = 16
"""The largest `n` that a request may ask for: the work of that many requests."""

_OWN_TEMPLATE = "a template or processor of the client's own runs code or burns time on the engine's machine"
_BETWEEN_ENGINES = "it is what engines say to each other about caches"
_OTHERS = "it takes precedence over the requests of others"
REFUSED = {
    "chat_template": _OWN_TEMPLATE,
    "mm_processor_kwargs": _OWN_TEMPLATE,
    "media_io_kwargs": _OWN_TEMPLATE,
    "kv_transfer_params": _BETWEEN_ENGINES,
    "ec_transfer_params": _BETWEEN_ENGINES,
    "vllm_xargs": "it goes to extensions of the engine as it is",
    "priority": _OTHERS,
    "request_id": "two requests of one id disturb each other",
    "prompt_embeds": "it is read by torch's loader of tensors",
    "routed_experts_prompt_start": "it is for training",
}
"""Fields that vLLM knows and that pass only where the service names them, and why."""

_IGNORED = (
    "audio",
    "best_of",
    "betas",
    "container",
    "context_management",
    "conversation",
    "function_call",
    "functions",
    "inference_geo",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "mcp_servers",
    "metadata",
    "modalities",
    "moderation",
    "parallel_tool_calls",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "service_tier",
    "speed",
    "store",
    "stream_options",
    "suffix",
    "thinking",
    "tool_choice",
    "top_logprobs",
    "user",
    "verbosity",
    "web_search_options",
)
"""Fields of OpenAI's and Anthropic's APIs that clients send. vLLM ignores those that it does not know."""

PARTS = frozenset(
    (
        "additionalProperties",
        "arguments",
        "cache_control",
        "content",
        "description",
        "detail",
        "effort",
        "enum",
        "format",
        "function",
        "id",
        "image_url",
        "include_usage",
        "input_audio",
        "items",
        "json_schema",
        "name",
        "parameters",
        "properties",
        "reasoning_content",
        "refusal",
        "required",
        "role",
        "schema",
        "strict",
        "text",
        "tool_call_id",
        "tool_calls",
        "type",
        "url",
    )
)
"""Names of parts of messages, tools and formats. At the top of a body they mean nothing, and pass: so a look
that does not know how deep a name stands comes to the same as one that does."""

_COUNTED = ("prompt", "input", "inputs", "messages", "texts", "images", "documents", "queries", "items")
HEADERS = ("x-vllm-", "x-data-parallel-", "x-serve-", "serve_")
"""Beginnings of names of headers by which vLLM and Ray Serve take orders: a priority, a rank, a replica. They
do not pass."""
LISTS = frozenset((*_COUNTED, "data_1", "data_2", "text_1", "text_2"))
"""Fields whose lists are as long as MAX_ITEMS at most, where each item is a piece of work of its own."""
CONVERSATIONS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/tokenize",
)
"""Paths on which a list is one conversation: it is bounded by the size of the body."""
_LOOKED_AT = ("counted", "entered")
FORMS = ("/v1/audio/transcriptions", "/v1/audio/translations")
"""Paths that take forms, which nobody looks into."""


@cache
def _generated() -> tuple[str, Mapping[str, tuple[str, ...]]]:
    found = json.loads(Path(__file__).with_name("request_fields.json").read_text())
    return str(found["vllm"]), {path: tuple(names) for path, names in found["paths"].items()}


def version() -> str:
    """The vLLM that the fields are of."""
    return _generated()[0]


def known(path: str) -> tuple[str, ...]:
    """The fields that vLLM knows at a path. Raises KeyError where there is no such path."""
    return _generated()[1][path]


def rules(path: str) -> dict[str, str]:
    """The fields that pass at a path, and how each is looked at; what is not among them is refused.

    `plain`: not at all. `counted`: a number of choices. `entered`: an object in which a template is refused.
    `listed`: the items of a list are counted.
    """
    found = {}
    for name in sorted({*known(path), *_IGNORED, *PARTS} - REFUSED.keys()):
        listed = name in LISTS and name in known(path) and path not in CONVERSATIONS
        found[name] = "listed" if listed else "plain"
    found["n"] = "counted"
    found["chat_template_kwargs"] = "entered"
    return found


def shared() -> str:
    """The rules of all paths as JSON, for replicas of the Ray images, which look at bodies by them too."""
    by_path: dict[str, dict[str, list[str]]] = {}
    plain = [{name for name, rule in rules(path).items() if rule == "plain"} for path in _generated()[1]]
    everywhere = set.intersection(*plain)
    for path in _generated()[1]:
        found = by_path.setdefault(path, {})
        for name, rule in rules(path).items():
            if name not in everywhere:
                found.setdefault(rule, []).append(name)
    known = {"choices": MAX_CHOICES, "items": MAX_ITEMS, "forms": FORMS}
    return json.dumps({**known, "everywhere": sorted(everywhere), "paths": by_path}, indent=1) + "\n"


@cache
def guard_path() -> str:
    """Where a replica that looks at bodies by this very list answers as it does for its health.

    No other does. The paths of requests whose bodies it is to look at begin with it.
    """
    return f"/-/guard/{hashlib.sha256(shared().encode()).hexdigest()[:16]}"


def unusual(path: str) -> str:
    """A regular expression that finds something in a body that has to be looked at field by field.

    That is a name, at whatever depth, that is not among those that pass without a look, or a list of what is
    counted. It may find one in a text, which costs a look. A name with escapes is none of those that pass.
    """
    names = _one_of(rules(path).keys() - {name for name, rule in rules(path).items() if rule in _LOOKED_AT})
    listed = [name for name, rule in rules(path).items() if rule == "listed"]
    lists = rf'"(?:{"|".join(listed)})"\s*:\s*[^"\s]|' if listed else ""
    # Names of fields first, since most quotation marks are of texts. No part of it goes back in the body.
    return rf'{lists}"(?=[^"]*+"\s*:)(?!{names}")'


def quick() -> dict[str, list[str]]:
    """What HAProxy judges small bodies by, without Lua: expressions of `unusual`, and their paths."""
    found: dict[str, list[str]] = {}
    for path in _generated()[1]:
        if path not in FORMS:
            found.setdefault(unusual(path), []).append(path)
    return found


def _one_of(names: Iterable[str]) -> str:
    """A regular expression of names, by first letters: an engine without JIT tries one after the other."""
    letters: dict[str, list[str]] = {}
    for name in sorted(names):
        letters.setdefault(name[0], []).append(re.escape(name[1:]))
    return "(?:" + "|".join(f"{letter}(?:{'|'.join(rests)})" for letter, rests in letters.items()) + ")"


def lua() -> str:
    """The rules of all paths as a module of Lua, for guard.lua."""
    lines = []
    for path in _generated()[1]:
        each = ", ".join(f'["{name}"] = "{rule}"' for name, rule in rules(path).items())
        lines.append(f'    ["{path}"] = {{ {each} }},')
    return "return {\n" + "\n".join(lines) + "\n}\n"
