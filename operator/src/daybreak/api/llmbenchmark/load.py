"""Load of a benchmark: requests, their rate, and the distribution of their lengths."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from daybreak.api.jobs.places import TableUri
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.scalar_types import Duration, ObjectName, PositiveDuration

ColumnName = Annotated[str, Field(min_length=1, max_length=256)]
Tokens = Annotated[int, Field(ge=1, le=1_000_000)]


class Distribution(StrEnum):
    """Distribution of lengths."""

    FIXED = "Fixed"
    """All lengths are `mean`."""
    UNIFORM = "Uniform"
    """All lengths from `min` to `max` are equally likely."""
    LOG_NORMAL = "LogNormal"
    """Many short and few long lengths, as in text written by people."""


class Lengths(ApiModel):
    """Distribution of lengths in tokens."""

    rules = (
        Rule(
            # The API server evaluates the rule on the default of the object, before its fields have defaults.
            "!has(self.max) || !has(self.min) || self.max >= self.min",
            "lengths: max must not be below min",
            lambda self: self.max >= self.min,
        ),
    )

    distribution: Distribution = Distribution.LOG_NORMAL
    """Type of the distribution: `Fixed`, `Uniform` or `LogNormal`."""
    mean: Annotated[float, Field(ge=1, le=1_000_000)] = 200
    """Mean of `Fixed` and `LogNormal` in tokens."""
    sigma: Annotated[float, Field(ge=0, le=3)] = 0.7
    """Standard deviation of the logarithm, with `LogNormal`."""
    min: Tokens = 4
    """Minimum length in tokens."""
    max: Tokens = 1024
    """Maximum length in tokens. Prompt and answer together must fit into the model's context."""


class RecordedLengths(ApiModel):
    """Lengths of one recorded request."""

    prompt: Tokens
    """Number of prompt tokens."""
    output: Tokens
    """Number of answer tokens."""


class TableFormat(StrEnum):
    """Format of a table."""

    AUTO = "Auto"
    """The suffix of each file's name determines the format: `.jsonl`, `.parquet` or `.csv`."""
    JSONL = "JSONL"
    """One JSON object per line."""
    PARQUET = "Parquet"
    CSV = "CSV"
    """CSV with the column names in the first line."""


class ConfigMapKey(ApiModel):
    """Key of a ConfigMap in the namespace of the benchmark."""

    name: ObjectName
    """Name of the ConfigMap."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-a-zA-Z0-9][-._a-zA-Z0-9]*$")]
    """Key in the ConfigMap, such as `lengths.csv`."""


class RecordedFrom(ApiModel):
    """Table with the lengths of recorded requests, one request per row.

    The benchmark reads it when it starts. A row without two whole numbers of tokens ends the benchmark, and
    the message names the row.
    """

    rules = (
        Rule(
            "has(self.uri) != has(self.configMapKeyRef)",
            "traceFrom has either a uri or a configMapKeyRef",
            lambda self: (self.uri is None) != (self.config_map_key_ref is None),
        ),
    )

    uri: TableUri | None = None
    """File or folder of files: `pvc://claim/path`, `s3://bucket/prefix` or `gs://bucket/prefix`. If there are
    more than 100,000 rows, 100,000 are sampled by `seed`."""
    config_map_key_ref: ConfigMapKey | None = None
    """Key of a ConfigMap with a small table."""
    format: TableFormat = TableFormat.AUTO
    """Format of the table: `JSONL`, `Parquet` or `CSV`. `Auto` selects the format by the names of the files
    or of the key."""
    prompt_column: ColumnName = "prompt"
    """Name of the column with the number of prompt tokens."""
    output_column: ColumnName = "output"
    """Name of the column with the number of answer tokens."""


class SharedPrefix(ApiModel):
    """Common prefix of prompts, such as a system prompt."""

    tokens: Tokens
    """Length of the prefix in tokens, which counts as part of the prompt."""
    count: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of different prefixes."""


class Load(ApiModel):
    """Requests of a benchmark and their rate."""

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
    """Numbers of clients in a closed loop. Each client sends its next request as soon as it receives an
    answer. Each number is a step."""
    rates: (
        Annotated[list[Annotated[float, Field(gt=0, le=10_000)]], Field(min_length=1, max_length=16)] | None
    ) = None
    """Requests per second in an open loop, regardless of whether earlier requests are answered. Each rate is
    a step."""
    burstiness: Annotated[float, Field(gt=0, le=100)] = 1
    """Regularity of the requests in an open loop. With 1 the requests are a Poisson process; lower values are
    burstier."""
    prompt_tokens: Lengths = Field(default_factory=Lengths)
    """Lengths of prompts."""
    output_tokens: Lengths = Field(default_factory=Lengths)
    """Lengths of answers. Each answer has exactly the sampled length."""
    trace: Annotated[list[RecordedLengths], Field(max_length=1000)] = Field(default_factory=list)
    """Recorded lengths, used instead of `promptTokens` and `outputTokens`. All of them are equally likely."""
    trace_from: RecordedFrom | None = None
    """Table with recorded lengths, for more requests than fit into a spec. If unset, no table is read."""
    shared_prefix: SharedPrefix | None = None
    """Common prefix of prompts. If unset, no two prompts share a prefix."""
    window_duration: PositiveDuration = "20s"
    """Duration of one measurement."""
    window_count: Annotated[int, Field(ge=1, le=20)] = 3
    """Number of consecutive measurements of each step. Their differences are the noise."""
    warmup_duration: Duration = "5s"
    """Duration of the same load before the first measurement, which is not counted."""
    seed: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Seed of the load. The same seed produces the same requests."""
