"""What a person asks for: the spec of an LLMBatch.

As with the other kinds, the models here are the one source of the CRD, the JSON schema and the API page.
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
"""Longest template, in characters: the whole of a batch is told to its job in one variable of 128 KiB."""
TemplateText = Annotated[str, Field(min_length=1, max_length=TEMPLATE_LIMIT)]
"""A Jinja2 template."""
ColumnName = Annotated[str, Field(min_length=1, max_length=256)]
"""A column of the input."""
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
"""A JSON schema."""


class Task(StrEnum):
    """What the model does with a row."""

    GENERATE = "generate"
    """It writes an answer."""
    EMBED = "embed"
    """It makes a vector of it."""
    CLASSIFY = "classify"
    """It gives the probabilities of its classes, as a vector."""
    SCORE = "score"
    """It gives one number: a model with one label, such as a reward model."""


class InputFormat(StrEnum):
    """How rows are written."""

    AUTO = "Auto"
    """By the end of each file's name."""
    JSONL = "JSONL"
    """A JSON object in each line."""
    PARQUET = "Parquet"
    CSV = "CSV"
    """With the names of the columns in the first line."""
    OPENAI = "OpenAI"
    """A request in each line: custom_id, method, url, body."""


class OutputFormat(StrEnum):
    """How answers are written."""

    JSONL = "JSONL"
    PARQUET = "Parquet"
    CSV = "CSV"
    OPENAI = "OpenAI"
    """Two files at the end: `output.jsonl` and, where rows have failed, `errors.jsonl`."""


class OnRowError(StrEnum):
    """What a row that cannot be answered means."""

    RECORD = "Record"
    """Its error stands in the output, and the batch goes on."""
    FAIL = "Fail"
    """The batch ends. What was answered is kept."""


class BatchInput(ApiModel):
    """Where the rows are."""

    uri: PlaceUri
    """A file, or a folder of files: `pvc://claim/path`, `s3://bucket/prefix`, `gs://bucket/prefix`, or
    `file:///path` in the head pod (with `runtime.head.volumes`). Names that begin with `.` or `_` are passed
    over. It must not change while the batch runs."""
    format: InputFormat = InputFormat.AUTO
    """`JSONL`, `Parquet`, `CSV`, or `OpenAI` for a batch file of OpenAI's; `Auto`: by the files' names."""


class BatchOutput(ApiModel):
    """Where the answers go."""

    uri: PlaceUri
    """A folder or prefix, in the same forms as the input's. It must be empty when the batch begins, and is
    written by this batch alone."""
    format: OutputFormat = OutputFormat.JSONL
    """`JSONL`, `Parquet` or `CSV`: the columns of the input, and `row_id`, `response`, `error`,
    `prompt_tokens` and `completion_tokens`. `OpenAI`: a result file and an error file."""


class PromptMessage(ApiModel):
    """One message of a prompt."""

    role: Annotated[str, Field(min_length=1, max_length=64)]
    """Who says it, such as `system`, `user` or `assistant`."""
    content: TemplateText
    """What is said: a Jinja2 template over the row's columns."""


class ServiceKind(StrEnum):
    """What may answer instead of a model of the batch's own."""

    LLM_SERVICE = "LLMService"
    """An LLMService."""
    LLM_ROUTE = "LLMRoute"
    """An LLMRoute: its backends share the rows as they share all requests."""
    MODEL_SERVER = "ModelServer"
    """A ModelServer that speaks OpenAI's API."""


class ServiceRef(ApiModel):
    """Who answers."""

    kind: ServiceKind = ServiceKind.LLM_SERVICE
    """What `name` is: `LLMService`, `LLMRoute`, or `ModelServer`, which must speak OpenAI's API."""
    name: ObjectName
    """Its name, in the batch's own namespace. It is woken where it sleeps."""
    model: ModelName | None = None
    """Which of its models or adapters, or of the names of a route. Unset: the one that is called as it is."""
    concurrency: Annotated[int, Field(ge=1, le=4096)] = 64
    """Requests at a time."""
    api_key: SecretKeySource | None = None
    """The key that its `access` wants, from a Secret; with a route, those of the models that it leads to."""

    @property
    def asked(self) -> str:
        """The name by which requests ask for a model."""
        return self.model or self.name


class Stages(ApiModel):
    """What happens to a row before the engine and after it, beside the engine and on the same nodes."""

    chat_template: bool = True
    """Whether the model's chat template is applied. False: the prompt is completed as it is."""
    chat_template_text: TemplateText | None = None
    """A chat template instead of the model's own."""
    chat_template_kwargs: EngineArgs = Field(default_factory=dict)
    """More variables for the chat template, such as `enable_thinking`."""
    tokenize: bool = True
    """Whether prompts become tokens beside the engine. False: in the engine's own process."""
    concurrency: Annotated[int, Field(ge=1, le=256)] = 1
    """Most processes that apply templates and tokenize."""
    batch_size: Annotated[int, Field(ge=1, le=4096)] = 16
    """Rows that go from stage to stage together."""


class LLMBatchSpec(ApiModel):
    """A table of prompts in, a table of answers out. Once it has begun, only
    `suspend`, `yield`, `minRunDuration`, `activeDeadline` and `ttlAfterFinished` may change."""

    rules = (
        Rule(
            "has(self.model) != has(self.serviceRef)",
            "a batch has either a model of its own or a serviceRef",
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
    """A model of the batch's own, in the same words as in an LLMService; its `replicas` move between `min`
    and `max` while there are rows."""
    service_ref: ServiceRef | None = None
    """An LLMService, LLMRoute or ModelServer that answers instead, through the gateway."""
    replicas: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Engines, a fixed number. Unset: `model.replicas`."""
    input: BatchInput
    """Where the rows are."""
    output: BatchOutput
    """Where the answers go."""
    task: Task = Task.GENERATE
    """`generate`, `embed`, `classify` or `score`."""
    prompt: TemplateText | None = None
    """Jinja2 template of the prompt over the row's columns, such as `Translate: {{ text }}`; `row` is all of
    them. It runs in a sandbox, and a column that is not there is the row's error."""
    messages: Annotated[list[PromptMessage], Field(min_length=1, max_length=32)] | None = None
    """Messages of a chat, with templates, instead of `prompt`."""
    messages_column: ColumnName | None = None
    """A column with messages in OpenAI's form, instead of `prompt`."""
    images: Annotated[list[ColumnName], Field(max_length=16)] = Field(default_factory=list)
    """Columns with an image each, as bytes, in base64 or as a `data:` URL, for models that see. They lead the
    last message of the user."""
    sampling_params: EngineArgs = Field(default_factory=dict)
    """vLLM's sampling parameters, such as `max_tokens` and `temperature`."""
    sampling_params_column: ColumnName | None = None
    """A column with an object of parameters for its row alone, above those of `samplingParams`."""
    guided_json: JsonSchema | None = None
    """A JSON schema that every answer follows."""
    adapter: ModelName | None = None
    """The LoRA adapter of `model.lora.adapters` that answers. Unset: the model itself."""
    stages: Stages = Field(default_factory=Stages)
    """What happens to a row before the engine."""
    on_row_error: OnRowError = OnRowError.RECORD
    """What a row means that cannot be answered: `Record` its error, or `Fail` the batch."""
    max_failed_rows: Annotated[int, Field(ge=0, le=1_000_000_000)] | None = None
    """Most rows that may fail before the batch does. Unset: any number."""
    resume: bool = True
    """Whether a batch that was interrupted goes on where it stopped. False: from the beginning."""
    preemptible: bool = True
    """Whether it gives its accelerators back when an LLMService finds none, and goes on where it stopped when
    that one has found room. A batch without `resume` does not, nor does one with a queue of Kueue's, which
    decides itself."""
    min_run_duration: PositiveDuration = "1m"
    """How long it runs at least before it gives them back."""
    suspend: bool = False
    """Gives everything back and keeps what is answered, until it is false again."""
    active_deadline: PositiveDuration | None = None
    """How long it may run in one go. Unset: any time."""
    backoff_limit: Annotated[int, Field(ge=0, le=100)] = 3
    """How often a job that has failed is begun anew, each time with a Ray cluster of its own. The loss of
    pods is no such failure."""
    ttl_after_finished: Duration = "0s"
    """How long the pods, with their logs, are kept after the end."""
    runtime: Runtime = Field(default_factory=Runtime)
    """The Ray pods. The label `kueue.x-k8s.io/queue-name` of the LLMBatch is that of its RayJob."""
