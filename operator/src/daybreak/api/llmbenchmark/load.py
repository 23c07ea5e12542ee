"""What a benchmark asks, how often, and how lengths are distributed."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.jobs.places import TableUri
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.scalar_types import Duration, ObjectName, PositiveDuration

ColumnName = Annotated[str, Field(min_length=1, max_length=256)]
Tokens = Annotated[int, Field(ge=1, le=1_000_000)]


class Distribution(StrEnum):
    """How lengths are distributed."""

    FIXED = "Fixed"
    """All are `mean`."""
    UNIFORM = "Uniform"
    """Each from `min` to `max` as often as another."""
    LOG_NORMAL = "LogNormal"
    """Many short ones, few long ones, as people write."""


class Lengths(ApiModel):
    """Lengths in tokens."""

    rules = (
        Rule(
            # The API server tries the rule on the default of the whole, in which the fields are not yet.
            "!has(self.max) || !has(self.min) || self.max >= self.min",
            "lengths: max must not be below min",
            lambda self: self.max >= self.min,
        ),
    )

    distribution: Distribution = Distribution.LOG_NORMAL
    """`Fixed`, `Uniform` or `LogNormal`."""
    mean: Annotated[float, Field(ge=1, le=1_000_000)] = 200
    """Mean of `Fixed` and `LogNormal`."""
    sigma: Annotated[float, Field(ge=0, le=3)] = 0.7
    """Standard deviation of the logarithm, with `LogNormal`."""
    min: Tokens = 4
    """Shortest."""
    max: Tokens = 1024
    """Longest. Prompt and answer together must fit into the model's context."""


class RecordedLengths(ApiModel):
    """Lengths of one request that was recorded."""

    prompt: Tokens
    """Tokens of its prompt."""
    output: Tokens
    """Tokens of its answer."""


class TableFormat(StrEnum):
    """How a table is written."""

    AUTO = "Auto"
    """By the end of each file's name: `.jsonl`, `.parquet`, `.csv`."""
    JSONL = "JSONL"
    """A JSON object in each line."""
    PARQUET = "Parquet"
    CSV = "CSV"
    """With the names of the columns in the first line."""


class ConfigMapKey(ApiModel):
    """A key of a ConfigMap in the benchmark's own namespace."""

    name: ObjectName
    """Name of the ConfigMap."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-a-zA-Z0-9][-._a-zA-Z0-9]*$")]
    """Key inside it, such as `lengths.csv`."""


class RecordedFrom(ApiModel):
    """A table with the lengths of requests that were recorded, each row one request. It is read when the
    benchmark begins. A row that is not two whole numbers of tokens ends it, and is named."""

    rules = (
        Rule(
            "has(self.uri) != has(self.configMapKeyRef)",
            "traceFrom has either a uri or a configMapKeyRef",
            lambda self: (self.uri is None) != (self.config_map_key_ref is None),
        ),
    )

    uri: TableUri | None = None
    """A file, or a folder of files: `pvc://claim/path`, `s3://bucket/prefix` or `gs://bucket/prefix`. Of more
    than 100,000 rows so many are drawn, by `seed`."""
    config_map_key_ref: ConfigMapKey | None = None
    """A key of a ConfigMap, for a small one."""
    format: TableFormat = TableFormat.AUTO
    """`JSONL`, `Parquet` or `CSV`; `Auto`: by the names of the files, or of the key."""
    prompt_column: ColumnName = "prompt"
    """The column with the tokens of prompts."""
    output_column: ColumnName = "output"
    """The column with the tokens of answers."""


class SharedPrefix(ApiModel):
    """Prompts that begin alike, such as with a system prompt."""

    tokens: Tokens
    """Tokens of the common beginning; they count among the prompt's."""
    count: Annotated[int, Field(ge=1, le=10_000)] = 1
    """How many different beginnings there are."""


class Load(ApiModel):
    """What is asked, and how often."""

    rules = (
        Rule(
            "has(self.clients) != has(self.rates)",
            "a load has either clients or rates",
            lambda self: (self.clients is None) != (self.rates is None),
        ),
        Rule(
            "!has(self.traceFrom) || !has(self.trace) || self.trace.size() == 0",
            "lengths are either recorded or traceFrom a table",
            lambda self: self.trace_from is None or not self.trace,
        ),
    )

    clients: (
        Annotated[list[Annotated[int, Field(ge=1, le=4096)]], Field(min_length=1, max_length=16)] | None
    ) = None
    """Closed loop: numbers of clients, each of which asks again as soon as it is answered. Each number is a
    step."""
    rates: (
        Annotated[list[Annotated[float, Field(gt=0, le=10_000)]], Field(min_length=1, max_length=16)] | None
    ) = None
    """Open loop: requests in each second, whether others are answered or not. Each rate is a step."""
    burstiness: Annotated[float, Field(gt=0, le=100)] = 1
    """How evenly requests of an open loop come: 1 is a Poisson process, less is burstier."""
    prompt_tokens: Lengths = Field(default_factory=Lengths)
    """Lengths of prompts."""
    output_tokens: Lengths = Field(default_factory=Lengths)
    """Lengths of answers: each is exactly as long as drawn."""
    trace: Annotated[list[RecordedLengths], Field(max_length=1000)] = Field(default_factory=list)
    """Lengths that were recorded, instead of the two distributions; each as often as another."""
    trace_from: RecordedFrom | None = None
    """The same from a table: more than a spec has room for. Unset: none."""
    shared_prefix: SharedPrefix | None = None
    """Prompts that begin alike. Unset: no two do."""
    window_duration: PositiveDuration = "20s"
    """How long one measurement takes."""
    window_count: Annotated[int, Field(ge=1, le=20)] = 3
    """Measurements of each step, one after another; how they differ is the noise."""
    warmup_duration: Duration = "5s"
    """Of the same load before the first of them, not counted."""
    seed: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """The same seed asks the same."""
