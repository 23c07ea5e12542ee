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

`daybreak.dev/v1alpha1`, short name `llm`. A minimal manifest:

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

[manifests/samples](../manifests/samples) has more examples. `kubectl explain llm.spec --recursive` shows the
fields of this page. For completion and validation in an editor, start the manifest with this line (adjust the
path to your checkout):

```yaml
# yaml-language-server: $schema=docs/llmservice.schema.json
```

## Reading the tables
- A **quantity** is a Kubernetes quantity: `500m`, `4`, `16Gi`. Fractions need quotes.
- A **duration** consists of hours, minutes, seconds and milliseconds in that order: `90s`, `1h30m`, `500ms`.
- A field without a default is optional unless it is marked *required*. The default *see fields* means that
  the fields of that type have defaults.
- References to Secrets, ConfigMaps, PersistentVolumeClaims and ServiceAccounts are names in the namespace of
  the service.

## Stability of v1alpha1
Daybreak has no release yet. Until the first release, a field may change its name or meaning; the
[changelog](../CHANGELOG.md) lists each change. After the first release:

- Fields of v1alpha1 keep their names and meanings. The changelog lists every changed default.
- A removed field is first rejected for one release, with a message that names the replacement. Daybreak never
  ignores a removed field.
- The next version is served in addition to v1alpha1, and the API server converts objects between the two.
- The status is for users and for `kubectl wait`: conditions and reasons keep their names, messages may
  change.

## Validation
The API server rejects unknown fields and objects that violate the tables or the rules below them. The
operator checks the rest when it reconciles the object, and reports problems in the condition `Stalled` with
reason `InvalidSpec`. The message has one sentence for each problem, with the path of the field and the
nearest fix. Running pods stay unchanged. The operator reports, for example:

- engine arguments that vLLM {versions.VLLM} does not have or that Daybreak sets itself
- values that vLLM cannot accept
- names that Ray Serve would merge
- volumes without a source, and mounts without a volume
- shared memory larger than the memory
- a Ray version older than {versions.RAY_MINIMUM}

`metadata.name` becomes the name of a RayService and of a Service: at most {definition.NAME_LIMIT} lower-case
letters, digits and `-`, starting with a letter.
"""

SCALE = """\
## Scaling
`kubectl scale llm NAME --replicas=N` sets `spec.replicas`, which fixes every model at N replicas. If it is
unset, each model scales within the bounds of its field `replicas`. To unset it again:

```sh
kubectl patch llm NAME --type=json -p '[{"op": "remove", "path": "/spec/replicas"}]'
```

A HorizontalPodAutoscaler reads and writes the same field, so set `spec.replicas` once before you use one.
While the field is unset, `GET .../scale` reports that it does not exist, and the autoscaler does nothing.
"""

FIT_CHECK = f"""\
`Schedulable` considers only the current nodes. If a node autoscaler (cluster autoscaler, Karpenter) adds
nodes for pending pods, disable the check of an LLMService with the annotation
`{names.FIT_CHECK_ANNOTATION}: "{names.FIT_CHECK_OFF}"` (YAML needs the quotes):

```sh
kubectl annotate llm NAME {names.FIT_CHECK_ANNOTATION}={names.FIT_CHECK_OFF}
```
"""


def api_md() -> str:
    """Return the page docs/api.md."""
    parts = [HEAD, "## Spec\n"]
    schema = crd.CRD.schema()["properties"]
    parts += sections(LLMServiceSpec, schema["spec"])
    parts += [SCALE, "## Status\n"]
    parts += sections(LLMServiceStatus, schema["status"])
    parts.append("## Status values\n")
    parts.append(words("Conditions", ConditionType))
    parts.append(FIT_CHECK)
    parts.append(words("Reasons", Reason))
    parts.append(words("Phases of a service", Phase))
    parts.append(words("States of a model", ModelState))
    return "\n".join(parts)


def sections(root: type[ApiModel], schema: Schema, known: Collection[type[ApiModel]] = ()) -> Iterator[str]:
    """Yield one section for the type and for each nested type, in the order of the fields.

    Types in `known` have a section on another page.
    """
    waiting, observed = [(root, schema)], {root, *known}
    while waiting:
        model, below = waiting.pop(0)
        yield _section(model, below)
        fresh = []
        for name, field in model.model_fields.items():
            child = _model_of(field.annotation)
            if child is not None and child not in observed:
                observed.add(child)
                part = below["properties"][field.alias or name]
                fresh.append((child, part.get("items", part)))
        waiting = fresh + waiting


def _section(model: type[ApiModel], schema: Schema) -> str:
    lines = [f"### {model.__name__}", " ".join((model.__doc__ or "").split()), ""]
    lines += ["| Field | Type | Default | Meaning |", "| --- | --- | --- | --- |"]
    for name, field in model.model_fields.items():
        key = field.alias or name
        part = schema["properties"][key]
        needed = " *(required)*" if field.is_required() else ""
        cells = (f"`{key}`{needed}", _type(field, part), _default(part), part.get("description", ""))
        lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        lines.append("| *any other* | any | | Field of Kubernetes, passed on unchanged. |")
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
            yield f"items of `{name}` are identified by {keys}, which must be unique."


def _model_of(annotation: Any) -> type[ApiModel] | None:
    """Return the API type inside an annotation, or None if it has none."""
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
    """Return a description of the values that the field accepts, with bounds."""
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
        return "see fields"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def words(title: str, enumeration: type[enum.Enum]) -> str:
    """Return the section of an enumeration: a table of its values."""
    lines = [f"### {title}", "| Value | Meaning |", "| --- | --- |"]
    meanings = docstrings.of_members(enumeration)
    lines += [f"| `{member.value}` | {meanings[member.name]} |" for member in enumeration]
    return "\n".join(lines) + "\n"
