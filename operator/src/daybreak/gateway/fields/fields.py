"""Fields of a request's body that the gateway rejects, by path: a list of what is dangerous.

Everything else passes, known or not: engines ignore what they do not know. `REFUSED` names each dangerous
field with its reason and source. `request_fields.json`, which `scripts/schemas/request_fields.py` makes, has
the fields of the pinned vLLM: a new pin shows in its diff which fields nobody has judged yet. A service lets
refused fields pass by `spec.access.extraFields`.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

MAX_ITEMS = 2048
"""The longest list of prompts, inputs or documents; as many as OpenAI's embeddings take."""

MAX_CHOICES = 16
"""The largest `n` that a request may ask for: the work of that many requests."""

MAX_SALT = 128
"""Maximum length of `cache_salt` in bytes. A longer one, or one with a slash, ends vLLM's engine if LMCache
keeps its cache (CVE-2026-105756)."""


class Danger(NamedTuple):
    """Why a field is refused."""

    reason: str
    """Effect on the engine or on other clients."""
    source: str
    """Advisory, or the source of the engine that reads the field."""


_TEMPLATE = "a template or processor of the client's own runs code or burns time on the engine's machine"
_BETWEEN_ENGINES = "engines tell each other with it where caches are"
_OTHERS = "it takes precedence over the requests of others"
_SAME_ID = "two requests of one id disturb each other"
_VLLM = "vLLM 0.29.0, vllm/entrypoints/openai"
_SGLANG = "SGLang, sglang/srt/entrypoints/openai/protocol.py"
REFUSED: Mapping[str, Danger] = {
    "allowed_token_ids": Danger(
        "it stays in force for requests of others that take the same place in a batch", "CVE-2026-114049"
    ),
    "chat_template": Danger(_TEMPLATE, "CVE-2026-115911"),
    "mm_processor_kwargs": Danger(_TEMPLATE, "CVE-2026-114053"),
    "media_io_kwargs": Danger(_TEMPLATE, "CVE-2026-105758, CVE-2026-105760"),
    "kv_transfer_params": Danger(_BETWEEN_ENGINES, _VLLM),
    "ec_transfer_params": Danger(_BETWEEN_ENGINES, _VLLM),
    "vllm_xargs": Danger("it goes to extensions of the engine as it is", _VLLM),
    "priority": Danger(_OTHERS, _VLLM),
    "request_id": Danger(_SAME_ID, _VLLM),
    "prompt_embeds": Danger("torch's loader of tensors reads it", "CVE-2025-62164"),
    "routed_experts_prompt_start": Danger("it is for training", _VLLM),
    "guided_decoding_backend": Danger("it chooses a backend that fills the disk", "CVE-2025-29770"),
    "custom_logit_processor": Danger("the engine unpickles it, which runs code", _SGLANG),
    "lora_path": Danger("it chooses an adapter past the model that a key allows", _SGLANG),
    "bootstrap_host": Danger(_BETWEEN_ENGINES, _SGLANG),
    "bootstrap_port": Danger(_BETWEEN_ENGINES, _SGLANG),
    "bootstrap_room": Danger(_BETWEEN_ENGINES, _SGLANG),
    "data_parallel_rank": Danger("it chooses the replica past the balancer", _SGLANG),
    "routed_dp_rank": Danger("it chooses the replica past the balancer", _SGLANG),
    "disagg_prefill_dp_rank": Danger("it chooses the replica past the balancer", _SGLANG),
    "rid": Danger(_SAME_ID, _SGLANG),
    "disaggregated_params": Danger(_BETWEEN_ENGINES, "TensorRT-LLM, tensorrt_llm/serve/openai_protocol.py"),
}
"""Fields at the top of a body that pass only if the service names them."""

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
    """Return the fields that are looked at on a path, and how; all others pass.

    `refused`: it does not pass. `counted`: a number of choices. `entered`: an object in which a template is
    refused. `listed`: the items of a list are counted. `salted`: a short text without a slash.
    """
    found = dict.fromkeys(REFUSED, "refused")
    for name in sorted(LISTS & set(known(path))):
        if path not in CONVERSATIONS:
            found[name] = "listed"
    return found | {"n": "counted", "chat_template_kwargs": "entered", "cache_salt": "salted"}


def shared() -> str:
    """The rules of all paths as JSON, for replicas of the Ray images, which look at bodies by them too."""
    by_path = {path: rules(path) for path in _generated()[1]}
    everywhere = dict.fromkeys(REFUSED, "refused")
    paths: dict[str, dict[str, list[str]]] = {path: {} for path in by_path}
    for path, found in by_path.items():
        for name, rule in found.items():
            if name not in everywhere:
                paths[path].setdefault(rule, []).append(name)
    known = {"choices": MAX_CHOICES, "items": MAX_ITEMS, "salt": MAX_SALT, "forms": FORMS}
    return json.dumps({**known, "refused": sorted(everywhere), "paths": paths}, indent=1) + "\n"


@cache
def guard_path() -> str:
    """Where a replica that looks at bodies by this very list answers as it does for its health.

    No other does. The paths of requests whose bodies it is to look at begin with it.
    """
    return f"/-/guard/{hashlib.sha256(shared().encode()).hexdigest()[:16]}"


def unusual(path: str) -> str:
    """A regular expression that finds something in a body that has to be looked at field by field.

    That is one of the names that are looked at, at whatever depth, a name with escapes, which may be one of
    them, or a list of what is counted. It may find one in a text, which costs a look. It looks at each
    quotation mark and no further than to the next one, so a body cannot make it slow.
    """
    names = _one_of(name for name, rule in rules(path).items() if rule != "listed")
    listed = [name for name, rule in rules(path).items() if rule == "listed"]
    lists = rf'"(?:{"|".join(listed)})"\s*:\s*[^"\s]|' if listed else ""
    # Names of fields first, since most quotation marks are of texts.
    return rf'{lists}"(?=[^"]*+"\s*:)(?:{names}"|[^"\\]*+\\)'


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
