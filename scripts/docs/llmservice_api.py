"""Page docs/api.md: every field of an LLMService, from its models and generated CRD."""

import enum
import typing
from collections.abc import Collection, Iterator
from typing import Any

from pydantic.fields import FieldInfo

from daybreak import versions
from daybreak.api.common import names
from daybreak.api.common.conditions import ConditionType, Reason
from daybreak.api.gates.gate_status import Phase
from daybreak.api.llmservice import crd, definition
from daybreak.api.llmservice.spec import LLMServiceSpec
from daybreak.api.llmservice.status import LLMServiceStatus, ModelState
from daybreak.api.schema import scalars
from daybreak.api.schema.base import ApiModel
from scripts.docs import docstrings

Schema = dict[str, Any]

HEAD = f"""\
<!-- Made by `make generate` from operator/src/daybreak/api; do not edit. -->
# LLMService

`daybreak.dev/v1alpha1`, short name `llm`. The least that one needs:

```yaml
apiVersion: daybreak.dev/v1alpha1
kind: LLMService
metadata:
  name: qwen
spec:
  models:
  - name: qwen2.5-7b
    source: hf://Qwen/Qwen2.5-7B-Instruct
```

More are in [manifests/samples](../manifests/samples). `kubectl explain llm.spec --recursive` says the same as
this page. Editors complete and check a manifest that begins with this line (with the path to your checkout):

```yaml
# yaml-language-server: $schema=docs/llmservice.schema.json
```

## How to read the tables
- A **quantity** is Kubernetes' own: `500m`, `4`, `16Gi`. A fraction stands in quotes.
- A **duration** is hours, minutes, seconds and milliseconds in that order: `90s`, `1h30m`, `500ms`.
- A field without a default may be left out unless it is marked *needed*; *its own* means that the parts below
  have defaults of their own.
- References to Secrets, ConfigMaps, claims and ServiceAccounts are names in the service's own namespace.

## What v1alpha1 promises
Daybreak is not released: until it is, a field may change its name or meaning, with a line in the
[changelog](../CHANGELOG.md). From the first release on:

- a field of v1alpha1 keeps its name and its meaning, and a default that changes is told in the changelog;
- a field that goes is refused for one release first, with the field to use instead, and never ignored;
- the next version is served beside v1alpha1, and objects are converted by the API server between the two;
- the status is for people and for `kubectl wait`: conditions and reasons keep their names, messages do not.

## Who checks what
The API server refuses what breaks the tables and the rules below them, and unknown fields. The operator
checks the rest when it sees the object, and says so in the condition `Stalled` with reason `InvalidSpec`,
one sentence for each problem with the field's path and the nearest fix; running pods are then left as they
are. Among these: engine arguments that vLLM {versions.VLLM} does not have or Daybreak sets itself, values
that vLLM cannot take, names that Ray Serve would merge, volumes without a source and mounts without a
volume, shared memory beyond the memory, a Ray older than {versions.RAY_MINIMUM}.

`metadata.name` becomes the name of a RayService and of a Service: at most {definition.NAME_LIMIT} lower-case
letters, digits and `-`, beginning with a letter.
"""

SCALE = """\
## Scaling
`kubectl scale llm NAME --replicas=N` writes `spec.replicas`, which fixes every model at N; without it each
model moves within its own `replicas`. To unset it again:

```sh
kubectl patch llm NAME --type=json -p '[{"op": "remove", "path": "/spec/replicas"}]'
```

A HorizontalPodAutoscaler reads and writes the same number, so it needs `spec.replicas` to be there: set it
once. While it is unset, `GET .../scale` answers that the field does not exist, and such an autoscaler does
nothing.
"""

FIT_CHECK = f"""\
`Schedulable` knows the nodes that are there now. Where nodes are added when pods ask for them (cluster
autoscaler, Karpenter), the annotation `{names.FIT_CHECK_ANNOTATION}: "{names.FIT_CHECK_OFF}"`
(YAML needs the quotes) leaves the check out for one LLMService:

```sh
kubectl annotate llm NAME {names.FIT_CHECK_ANNOTATION}={names.FIT_CHECK_OFF}
```
"""


def api_md() -> str:
    """Return the whole page."""
    parts = [HEAD, "## Spec\n"]
    schema = crd.CRD.schema()["properties"]
    parts += sections(LLMServiceSpec, schema["spec"])
    parts += [SCALE, "## Status\n"]
    parts += sections(LLMServiceStatus, schema["status"])
    parts.append("## Words in the status\n")
    parts.append(words("Conditions", ConditionType))
    parts.append(FIT_CHECK)
    parts.append(words("Reasons", Reason))
    parts.append(words("Phases of a service", Phase))
    parts.append(words("States of a model", ModelState))
    return "\n".join(parts)


def sections(root: type[ApiModel], schema: Schema, known: Collection[type[ApiModel]] = ()) -> Iterator[str]:
    """Yield a section for the type and each type below it, each once, in the order of the fields.

    Types in `known` already have a section elsewhere.
    """
    waiting, seen = [(root, schema)], {root, *known}
    while waiting:
        model, below = waiting.pop(0)
        yield _section(model, below)
        fresh = []
        for name, field in model.model_fields.items():
            child = _model_of(field.annotation)
            if child is not None and child not in seen:
                seen.add(child)
                part = below["properties"][field.alias or name]
                fresh.append((child, part.get("items", part)))
        waiting = fresh + waiting


def _section(model: type[ApiModel], schema: Schema) -> str:
    lines = [f"### {model.__name__}", " ".join((model.__doc__ or "").split()), ""]
    lines += ["| field | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, field in model.model_fields.items():
        key = field.alias or name
        part = schema["properties"][key]
        needed = " *(needed)*" if field.is_required() else ""
        cells = (f"`{key}`{needed}", _type(field, part), _default(part), part.get("description", ""))
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        lines.append("| *any other* | any | | Kubernetes' own, handed over as it is written. |")
    if rules := [*_rules(model), *_list_rules(schema)]:
        lines += ["", "Rules:", *(f"- {rule}" for rule in rules)]
    return "\n".join(lines) + "\n"


def _rules(model: type[ApiModel]) -> Iterator[str]:
    for rule in model.rules:
        yield f"{rule.message}."


def _list_rules(schema: Schema) -> Iterator[str]:
    for name, part in schema["properties"].items():
        if part.get("x-kubernetes-list-type") == "map":
            keys = " and ".join(f"`{key}`" for key in part["x-kubernetes-list-map-keys"])
            yield f"items of `{name}` are told apart by {keys}, so each may stand there once."


def _model_of(annotation: Any) -> type[ApiModel] | None:
    """Return the API type inside an annotation, or None."""
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        return annotation
    for inner in typing.get_args(annotation):
        if (found := _model_of(inner)) is not None:
            return found
    return None


def _enum_of(annotation: Any) -> type[enum.Enum] | None:
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return annotation
    return next((e for inner in typing.get_args(annotation) if (e := _enum_of(inner))), None)


def _type(field: FieldInfo, schema: Schema) -> str:
    """Describe the values that the field accepts, with bounds."""
    child = _model_of(field.annotation)
    if child is not None:
        link = f"[{child.__name__}](#{child.__name__.lower()})"
        return f"list of {link}, {_count(schema)}" if schema["type"] == "array" else link
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "enum" in schema:
        return " | ".join(f"`{choice}`" for choice in schema["enum"])
    if schema.get("format") == "date-time":
        return "time"
    match schema["type"]:
        case "string" if scalars.DURATION_PATTERN in schema.get("pattern", ""):
            auto = "`Auto` | " if schema["pattern"] != scalars.DURATION_PATTERN else ""
            positive = any("> duration('0s')" in rule["rule"] for rule in schema[scalars.VALIDATIONS])
            return f"{auto}duration{', above 0s' if positive else ''}"
        case "string":
            return f"text, at most {schema['maxLength']} characters" if "maxLength" in schema else "text"
        case "object":
            values = "text" if schema["additionalProperties"].get("type") == "string" else "any JSON"
            return f"map to {values}, at most {schema['maxProperties']}"
        case "integer" | "number" as kind:
            return f"{kind}{_bounds(schema)}"
        case kind:
            return str(kind)


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None:
        return ""
    if schema.get("exclusiveMinimum"):
        return f", above {low:g}" + ("" if high is None else f", at most {high:g}")
    return f", at least {low}" if high is None else f", {low} to {high}"


def _count(schema: Schema) -> str:
    return (
        f"{schema['minItems']} to {schema['maxItems']}"
        if "minItems" in schema
        else f"at most {schema['maxItems']}"
    )


def _default(schema: Schema) -> str:
    if "default" not in schema:
        return ""
    value = schema["default"]
    if value == {}:
        return "its own"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def words(title: str, enumeration: type[enum.Enum]) -> str:
    lines = [f"### {title}", "| word | meaning |", "| --- | --- |"]
    meanings = docstrings.of_members(enumeration)
    lines += [f"| `{member.value}` | {meanings[member.name]} |" for member in enumeration]
    return "\n".join(lines) + "\n"
