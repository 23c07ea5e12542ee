"""Spec of an LLMBatch.

As for the other kinds, the models here are the only source of the CRD, the JSON schema and the API page.
"""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from daybreak.api.jobs.places import PlaceUri
from daybreak.api.ray.model import EngineArgs, Model
from daybreak.api.ray.runtime import Runtime
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import SecretKeySource
from daybreak.api.schema.scalar_types import Duration, ModelName, ObjectName, PositiveDuration

TEMPLATE_LIMIT = 16_384
"""Maximum length of a template in characters. The job receives the whole batch in one environment variable of
128 KiB."""
TemplateText = Annotated[str, Field(min_length=1, max_length=TEMPLATE_LIMIT)]
"""Jinja2 template."""
ColumnName = Annotated[str, Field(min_length=1, max_length=256)]
"""Name of a column of the input."""
JsonSchema = Annotated[
    dict[Annotated[str, Field(min_length=1)], Any],
    Field(max_length=64),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True, "nullable": True},
            "maxProperties": 64,
        }
    ),
]
"""JSON schema."""


class Task(StrEnum):
    """Task of the model for each row."""

    GENERATE = "generate"
    """The model writes an answer."""
    EMBED = "embed"
    """The model returns an embedding vector of the row."""
    CLASSIFY = "classify"
    """The model returns the probabilities of its classes as a vector."""
    SCORE = "score"
    """The model returns one number. It must be a model with one label, such as a reward model."""


class InputFormat(StrEnum):
    """Format of the input."""

    AUTO = "Auto"
    """The suffix of each file's name determines the format."""
    JSONL = "JSONL"
    """One JSON object per line."""
    PARQUET = "Parquet"
    CSV = "CSV"
    """CSV with the column names in the first line."""
    OPENAI = "OpenAI"
    """One request per line with `custom_id`, `method`, `url` and `body`, as in OpenAI batch files."""


class OutputFormat(StrEnum):
    """Format of the output."""

    JSONL = "JSONL"
    PARQUET = "Parquet"
    CSV = "CSV"
    OPENAI = "OpenAI"
    """Two files at the end: `output.jsonl` and, if rows have failed, `errors.jsonl`."""


class OnRowError(StrEnum):
    """Effect of a row that cannot be answered."""

    RECORD = "Record"
    """The output contains the error of the row, and the batch continues."""
    FAIL = "Fail"
    """The batch ends. Answered rows are kept."""


class BatchInput(ApiModel):
    """Location and format of the rows."""

    uri: PlaceUri
    """File or folder of files: `pvc://claim/path`, `s3://bucket/prefix`, `gs://bucket/prefix`, or
    `file:///path` in the head pod (with `runtime.head.volumes`). Names that begin with `.` or `_` are
    ignored. The input must not change while the batch runs."""
    format: InputFormat = InputFormat.AUTO
    """Format of the input: `JSONL`, `Parquet`, `CSV`, or `OpenAI` for an OpenAI batch file. `Auto` selects
    the format by the names of the files."""


class BatchOutput(ApiModel):
    """Location and format of the answers."""

    uri: PlaceUri
    """Folder or prefix, in the same forms as `input.uri`. It must be empty when the batch starts, and no
    other program may write to it."""
    format: OutputFormat = OutputFormat.JSONL
    """Format of the output. `JSONL`, `Parquet` and `CSV` have the columns of the input, and `row_id`,
    `response`, `error`, `prompt_tokens` and `completion_tokens`. `OpenAI` is a result file and an error
    file."""


class PromptMessage(ApiModel):
    """One message of a prompt."""

    role: Annotated[str, Field(min_length=1, max_length=64)]
    """Role of the author, such as `system`, `user` or `assistant`."""
    content: TemplateText
    """Content of the message: a Jinja2 template over the columns of the row."""


class ServiceKind(StrEnum):
    """Kinds of objects that can answer instead of a dedicated model of the batch."""

    LLM_SERVICE = "LLMService"
    """An LLMService."""
    LLM_ROUTE = "LLMRoute"
    """An LLMRoute. Its backends share the rows like all other requests."""
    MODEL_SERVER = "ModelServer"
    """A ModelServer that implements the OpenAI API."""


class ServiceRef(ApiModel):
    """Object that answers the rows."""

    kind: ServiceKind = ServiceKind.LLM_SERVICE
    """Kind of the object: `LLMService`, `LLMRoute`, or `ModelServer`. A ModelServer must implement the OpenAI
    API."""
    name: ObjectName
    """Name of the object in the namespace of the batch. If it sleeps, the batch wakes it."""
    model: ModelName | None = None
    """Name of a model or adapter of the service, or one of the names of the route. Defaults to `name`."""
    concurrency: Annotated[int, Field(ge=1, le=4096)] = 64
    """Number of concurrent requests."""
    api_key: SecretKeySource | None = None
    """API key that the service's `access` requires, from a Secret. For a route, a key of the models that it
    leads to."""

    @property
    def requested(self) -> str:
        """Return the model name that requests contain."""
        return self.model or self.name


class Stages(ApiModel):
    """Processing of a row before and after the engine, in separate processes on the same nodes."""

    chat_template: bool = True
    """If true, the model's chat template is applied. If false, the model completes the prompt unchanged."""
    chat_template_text: TemplateText | None = None
    """Chat template that replaces the one of the model."""
    chat_template_kwargs: EngineArgs = Field(default_factory=dict)
    """Additional variables for the chat template, such as `enable_thinking`."""
    tokenize: bool = True
    """If true, prompts are tokenized in separate processes next to the engine. If false, the engine's own
    process tokenizes them."""
    concurrency: Annotated[int, Field(ge=1, le=256)] = 1
    """Maximum number of processes that apply templates and tokenize."""
    batch_size: Annotated[int, Field(ge=1, le=4096)] = 16
    """Number of rows that pass through the stages together."""


class LLMBatchSpec(ApiModel):
    """Table of prompts as input, and table of answers as output.

    After the start, only `suspend`, `preemptible`, `minRunDuration`, `activeDeadline` and `ttlAfterFinished`
    may change.
    """

    rules = (
        Rule(
            "has(self.model) != has(self.serviceRef)",
            "a batch needs either model or serviceRef",
            lambda self: (self.model is None) != (self.service_ref is None),
        ),
        Rule(
            "(has(self.prompt) ? 1 : 0) + (has(self.messages) ? 1 : 0) + (has(self.messagesColumn) ? 1 : 0)"
            " == (self.input.format == 'OpenAI' ? 0 : 1)",
            "a batch has one of prompt, messages and messagesColumn, and none with input.format OpenAI",
            lambda self: (
                sum(each is not None for each in (self.prompt, self.messages, self.messages_column))
                == (0 if self.input.format is InputFormat.OPENAI else 1)
            ),
        ),
        Rule(
            "!has(self.output) || self.output.format != 'OpenAI' || self.input.format == 'OpenAI'",
            "output.format OpenAI belongs to input.format OpenAI",
            lambda self: (
                self.output.format is not OutputFormat.OPENAI or self.input.format is InputFormat.OPENAI
            ),
        ),
    )

    model: Model | None = None
    """Dedicated model of the batch, with the fields of a model of an LLMService. The number of its `replicas`
    varies between `min` and `max` while there are rows."""
    service_ref: ServiceRef | None = None
    """LLMService, LLMRoute or ModelServer that answers instead, through the gateway."""
    replicas: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Fixed number of engines. Defaults to the range of `model.replicas`."""
    input: BatchInput
    """Location and format of the rows."""
    output: BatchOutput
    """Location and format of the answers."""
    task: Task = Task.GENERATE
    """Task of the model: `generate`, `embed`, `classify` or `score`."""
    prompt: TemplateText | None = None
    """Jinja2 template of the prompt over the columns of the row, such as `Translate: {{ text }}`. The
    variable `row` contains all columns. The template runs in a sandbox, and a missing column is an error of
    the row."""
    messages: Annotated[list[PromptMessage], Field(min_length=1, max_length=32)] | None = None
    """Messages of a chat, with templates, instead of `prompt`."""
    messages_column: ColumnName | None = None
    """Name of a column with messages in OpenAI's form, instead of `prompt`."""
    images: Annotated[list[ColumnName], Field(max_length=16)] = Field(default_factory=list)
    """Names of columns with one image each, as bytes, in base64 or as a `data:` URL, for vision models. The
    images precede the rest of the last user message."""
    sampling_params: EngineArgs = Field(default_factory=dict)
    """Sampling parameters of vLLM, such as `max_tokens` and `temperature`."""
    sampling_params_column: ColumnName | None = None
    """Name of a column with an object of sampling parameters for its row only. They override
    `samplingParams`."""
    guided_json: JsonSchema | None = None
    """JSON schema that every answer follows."""
    adapter: ModelName | None = None
    """LoRA adapter of `model.lora.adapters` that answers. If unset, the base model answers."""
    stages: Stages = Field(default_factory=Stages)
    """Processing of a row before and after the engine."""
    on_row_error: OnRowError = OnRowError.RECORD
    """Effect of a row that cannot be answered: `Record` its error, or `Fail` the batch."""
    max_failed_rows: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = None
    """Maximum number of rows that may fail before the batch fails. If unset, any number may fail."""
    resume: bool = True
    """If true, an interrupted batch continues from the point of interruption. If false, it restarts from the
    beginning."""
    preemptible: bool = True
    """If true, the batch releases its accelerators when an LLMService cannot be scheduled, and continues once
    that service is scheduled. It has no effect without `resume`. With a Kueue queue, Kueue decides
    instead."""
    min_run_duration: PositiveDuration = "1m"
    """Minimum run time of the batch before it releases its accelerators."""
    suspend: bool = False
    """If true, the batch releases all its resources and keeps the answered rows. It continues when the field
    is false again."""
    active_deadline: PositiveDuration | None = None
    """Maximum duration of one uninterrupted run. If unset, there is no limit."""
    backoff_limit: Annotated[int, Field(ge=0, le=100)] = 3
    """Maximum number of restarts of a failed job, each with a new Ray cluster. The loss of pods does not
    count as a failure."""
    ttl_after_finished: Duration = "0s"
    """Time for which the pods and their logs are kept after the end."""
    runtime: Runtime = Field(default_factory=Runtime)
    """Configuration of the Ray pods. The RayJob inherits the label `kueue.x-k8s.io/queue-name` of the
    LLMBatch."""
