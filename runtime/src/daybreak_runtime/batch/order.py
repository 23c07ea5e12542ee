"""Order of a batch from the operator: the variable DAYBREAK_BATCH, as JSON."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

VARIABLE = "DAYBREAK_BATCH"


@dataclass(frozen=True)
class Place:
    """Location of the input or output."""

    uri: str
    """`file:///path`, `s3://bucket/prefix` or `gs://bucket/prefix`; PVCs are mounted, so they are files."""
    format: str
    """`JSONL`, `Parquet`, `CSV` or `OpenAI`. An input may have `Auto`, which depends on the files' names."""
    shown: str = ""
    """Location as the user wrote it, for messages."""


@dataclass(frozen=True)
class Request:
    """Rules for making a request from a row."""

    task: str = "generate"
    prompt: str | None = None
    """Jinja2 template of the prompt, or of the user's only message if a chat template applies."""
    messages: tuple[Mapping[str, str], ...] = ()
    """Messages, each with `role` and `content`, a Jinja2 template."""
    messages_column: str | None = None
    """Column with messages in OpenAI's format."""
    images: tuple[str, ...] = ()
    """Columns with an image each, as a `data:` or other URL."""
    sampling_params: Mapping[str, Any] = field(default_factory=dict)
    sampling_params_column: str | None = None
    """Column with parameters of the row."""
    guided_json: Mapping[str, Any] | None = None
    """JSON schema of every answer."""
    adapter: str | None = None
    """LoRA adapter that answers."""
    chat_template: str | None = None
    """Chat template that replaces the tokenizer's own."""
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    use_chat_template: bool = True
    """False to complete the prompt unchanged."""
    tokenize: bool = True
    """True to tokenize prompts outside the engine, false to tokenize them in it."""


@dataclass(frozen=True)
class Engines:
    """Engines of a batch with its own model."""

    source: str
    """Source for vLLM: a path, a repository or a bucket."""
    engine_args: Mapping[str, Any]
    bundle: Mapping[str, float]
    """Ray resources of one of an engine's workers."""
    resource: str
    """Ray resource that only pods with the model's weights have."""
    name: str = ""
    """Model name in answers."""
    strategy: str = "PACK"
    replicas: tuple[int, int] = (1, 1)
    max_num_seqs: int = 256
    """Maximum number of concurrent requests of an engine."""
    batch_size: int = 16
    """Rows that pass the stages together."""
    preparers: int = 1
    """Maximum number of processes that apply templates and tokenize."""
    adapters: Mapping[str, str] = field(default_factory=dict)
    """Paths of the weights of LoRA adapters, by name."""


@dataclass(frozen=True)
class Service:
    """LLMService that answers."""

    url: str
    """Base URL of the service's OpenAI API."""
    model: str
    concurrency: int = 64
    """Maximum number of concurrent requests."""
    key: str | None = None
    """Name of the variable with the API key."""
    patience_seconds: float = 3600.0
    """Seconds for which one row is retried while the service cannot answer."""


@dataclass(frozen=True)
class Order:
    """Order of a batch."""

    uid: str
    """UID of the LLMBatch, which identifies the output of this batch."""
    input: Place
    output: Place
    request: Request
    engines: Engines | None = None
    service: Service | None = None
    fail_on_error: bool = False
    """True if the first unanswered row ends the batch."""
    max_failed_rows: int | None = None
    """Maximum number of failed rows; None is unlimited."""
    resume: bool = True
    port: int = 8300
    """Port of the progress."""

    @classmethod
    def from_environment(cls) -> Self:
        """Read the order from the variable. Raises KeyError or ValueError if it is missing or invalid."""
        return cls.read(json.loads(os.environ[VARIABLE]))

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Self:
        """Read an order from its JSON form."""
        parts: dict[str, Any] = dict(plain)
        kinds: dict[str, type] = {
            "input": Place,
            "output": Place,
            "request": Request,
            "engines": Engines,
            "service": Service,
        }
        for name, kind in kinds.items():
            if parts.get(name) is not None:
                parts[name] = _made(kind, parts[name])
        return cls(**parts)


def _made(kind: Any, plain: Mapping[str, Any]) -> Any:
    known = {each.name for each in fields(kind)}
    unknown = sorted(set(plain) - known)
    if unknown:
        raise ValueError(f"{kind.__name__} has no field {', '.join(unknown)}")
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()})
