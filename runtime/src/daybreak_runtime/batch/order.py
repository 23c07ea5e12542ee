"""What the operator asks for: the variable DAYBREAK_BATCH, as JSON."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

VARIABLE = "DAYBREAK_BATCH"


@dataclass(frozen=True)
class Place:
    """Where rows are read or written."""

    uri: str
    """`file:///path`, `s3://bucket/prefix` or `gs://bucket/prefix`; claims are mounted, so they are files."""
    format: str
    """`JSONL`, `Parquet`, `CSV` or `OpenAI`; `Auto` for an input goes by the files' names."""
    shown: str = ""
    """The place as the person has written it, for messages."""


@dataclass(frozen=True)
class Request:
    """How a request is made of a row."""

    task: str = "generate"
    prompt: str | None = None
    """Jinja2 template of the prompt, or of the only message of the user where a chat template applies."""
    messages: tuple[Mapping[str, str], ...] = ()
    """Messages, each with `role` and `content`, a Jinja2 template."""
    messages_column: str | None = None
    """Column with messages in OpenAI's form."""
    images: tuple[str, ...] = ()
    """Columns with an image each, as a `data:` or other URL."""
    sampling_params: Mapping[str, Any] = field(default_factory=dict)
    sampling_params_column: str | None = None
    """Column with parameters for this row alone."""
    guided_json: Mapping[str, Any] | None = None
    """JSON schema that every answer follows."""
    adapter: str | None = None
    """LoRA adapter that answers."""
    chat_template: str | None = None
    """Instead of the tokenizer's own."""
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    use_chat_template: bool = True
    """False: the prompt is completed as it is."""
    tokenize: bool = True
    """Whether prompts are tokenized beside the engine; False: by the engine."""


@dataclass(frozen=True)
class Engines:
    """The engines of a batch with a model of its own."""

    source: str
    """What vLLM loads: a path, a repository or a bucket."""
    engine_args: Mapping[str, Any]
    bundle: Mapping[str, float]
    """Ray resources of one of an engine's workers."""
    resource: str
    """Ray resource that only pods with the model's weights have."""
    name: str = ""
    """What the model is called in answers."""
    strategy: str = "PACK"
    replicas: tuple[int, int] = (1, 1)
    max_num_seqs: int = 256
    """Requests that an engine runs at a time."""
    batch_size: int = 16
    """Rows that go through the stages together."""
    preparers: int = 1
    """Most processes that template and tokenize."""
    adapters: Mapping[str, str] = field(default_factory=dict)
    """Where the weights of LoRA adapters are, by name."""


@dataclass(frozen=True)
class Service:
    """An LLMService that answers."""

    url: str
    """Base URL of its OpenAI API."""
    model: str
    concurrency: int = 64
    """Requests at a time."""
    key: str | None = None
    """Name of the variable with the API key."""
    patience_seconds: float = 3600.0
    """How long one row is tried while the service cannot answer."""


@dataclass(frozen=True)
class Order:
    """A batch."""

    uid: str
    """Of the LLMBatch: tells the output of this batch from that of another."""
    input: Place
    output: Place
    request: Request
    engines: Engines | None = None
    service: Service | None = None
    fail_on_error: bool = False
    """Whether the first row that cannot be answered ends the batch."""
    max_failed_rows: int | None = None
    """Most rows that may fail; None: any number."""
    resume: bool = True
    port: int = 8300
    """Where progress is told."""

    @classmethod
    def from_environment(cls) -> Self:
        """Read the variable; raises KeyError or ValueError when it is not there or not an order."""
        return cls.read(json.loads(os.environ[VARIABLE]))

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Self:
        """Read an order in its JSON form."""
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
