"""Fields of a batch: valid values, and helpful messages for rejected ones."""

import enum
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import jsonschema
import pytest
import yaml

from daybreak.api.llmbatch import crd, spec
from daybreak.api.llmbatch.definition import NAME_RULES, LLMBatch
from daybreak.api.llmbatch.status import BatchConditionType, BatchPhase, BatchReason
from daybreak.api.llmbatch.validation import problems
from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.custom_object import InvalidSpec
from scripts.docs import docstrings
from scripts.docs.batch_api import batch_api_md
from scripts.kinds import LLM_BATCH
from scripts.schemas.json_schema import json_schema
from tests.unit.llmbatch.batches import MODEL, batch, manifest

OPENAI = {"input": {"uri": "pvc://rows/in", "format": "OpenAI"}, "prompt": None}
BY_RULE: list[tuple[dict[str, Any], str]] = [
    ({"model": None}, "a batch needs either model or serviceRef"),
    ({"serviceRef": {"name": "a"}}, "a batch needs either model or serviceRef"),
    ({"prompt": None}, "a batch has one of prompt, messages and messagesColumn"),
    ({"messagesColumn": "m"}, "a batch has one of prompt, messages and messagesColumn"),
    ({**OPENAI, "prompt": "a"}, "and none with input.format OpenAI"),
    ({"output": {"uri": "s3://b/out", "format": "OpenAI"}}, "output.format OpenAI belongs to input.format"),
    ({"input": {"uri": "pvc://Rows/in"}}, "write pvc://claim/path"),
    ({"input": {"uri": "http://host/in"}}, "write pvc://claim/path"),
    ({"output": {"uri": "pvc://rows/../out"}}, "a path must not contain '..'"),
    ({"colour": "red"}, "there is no such field"),
]
BY_PROBLEM: list[tuple[dict[str, Any], str]] = [
    ({"model": MODEL | {"engine": {"args": {"max_num_seq": 1}}}}, "spec.model.engine.args.max_num_seq"),
    ({"output": {"uri": "pvc://rows/in.jsonl"}}, "must not lie in the input"),
    ({"input": {"uri": "s3://b/x"}, "output": {"uri": "s3://b/x/out"}}, "must not lie in the input"),
    ({"input": {"uri": "s3://b/out/x"}, "output": {"uri": "s3://b/out"}}, "must not lie in the input"),
    ({"adapter": "poet"}, "spec.model.lora.adapters has no poet"),
    ({"model": None, "serviceRef": {"name": "a"}, "adapter": "poet"}, "name it in spec.serviceRef.model"),
    ({"task": "embed", "guidedJson": {"type": "object"}}, "writes nothing that could follow a schema"),
    ({"model": None, "serviceRef": {"name": "a"}, "task": "score"}, "needs a model of the batch's own"),
    (OPENAI | {"images": ["photo"]}, "images are in the messages"),
    (OPENAI | {"samplingParamsColumn": "p"}, "parameters are in each body"),
    (
        {"prompt": None, "messagesColumn": "m", "stages": {"chatTemplate": False}},
        "without it messages make no prompt",
    ),
    ({"runtime": {"serviceAccountName": "a" * 51}}, "KubeRay keeps 50"),
    ({"samplingParams": {"stop": ["x" * 110_000]}}, "characters exceed the limit of"),
]


@pytest.mark.parametrize(("change", "words"), BY_RULE)
def test_spec_that_breaks_rule_is_rejected_with_message(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSpec) as found:
        LLMBatch.from_manifest(manifest(**change))
    assert words in str(found.value)


@pytest.mark.parametrize(("change", "words"), BY_PROBLEM)
def test_spec_problem_is_reported_with_message(change: dict[str, Any], words: str) -> None:
    assert words in "; ".join(problems(batch(**change)))


def test_every_spec_rule_has_rejection_case() -> None:
    models = [each for each in vars(spec).values() if isinstance(each, type) and issubclass(each, ApiModel)]
    own = [rule.message for each in models if each.__module__ == spec.__name__ for rule in each.rules]
    assert own
    for message in own:
        assert any(words in message or message in words for _, words in BY_RULE), message


@pytest.mark.parametrize("name", ["Night", "1st", "a-", "a" * 39])
def test_invalid_name_is_rejected(name: str) -> None:
    whole = manifest()
    whole["metadata"]["name"] = name
    with pytest.raises(InvalidSpec, match=r"metadata\.name"):
        LLMBatch.from_manifest(whole)
    assert not all(rule.holds(name) for rule in NAME_RULES)


@pytest.mark.parametrize(
    "change", [{}, OPENAI, {"prompt": None, "messages": [{"role": "user", "content": "a"}]}]
)
def test_valid_spec_passes_json_schema(change: dict[str, Any]) -> None:
    assert problems(batch(**change)) == ()
    whole = {"apiVersion": "daybreak.dev/v1alpha1", "kind": "LLMBatch", **manifest(**change)}
    jsonschema.validate(whole, json_schema(LLM_BATCH))


def examples() -> list[dict[str, Any]]:
    """Return the examples of docs/batch.md: whole batches, and specs with other backends."""
    page = (Path(__file__).parents[3] / "docs" / "batch.md").read_text()
    found = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    found += map(dedent, re.findall(r"^    spec:\n(?:     .*\n)+", page, re.MULTILINE))
    specs = [yaml.safe_load(text)["spec"] for text in found]
    return [{"model": None, **each} if "serviceRef" in each else each for each in specs]


@pytest.mark.parametrize("change", examples())
def test_documented_examples_are_valid(change: dict[str, Any]) -> None:
    assert problems(batch(**change)) == ()


def test_crd_has_expected_name_and_progress_column() -> None:
    found = crd.CRD.manifest()
    assert found["metadata"]["name"] == "llmbatches.daybreak.dev"
    [version] = found["spec"]["versions"]
    assert "Progress" in [column["name"] for column in version["additionalPrinterColumns"]]


@pytest.mark.parametrize("words", [BatchConditionType, BatchPhase, BatchReason])
def test_every_status_value_has_docstring(words: type[enum.Enum]) -> None:
    meanings = docstrings.of_members(words)
    assert list(meanings) == list(words.__members__)
    assert all(meanings.values())


def test_every_api_field_has_description() -> None:
    rows = [line for line in batch_api_md().splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    assert all(row.rstrip(" |").rpartition("| ")[2] for row in rows)


def test_documented_reasons_match_reason_enum() -> None:
    page = (Path(__file__).parents[3] / "docs" / "batch.md").read_text().partition("## Reasons")[2]
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = [name for cell in cells for name in re.findall("`([A-Za-z]+)`", cell)]
    assert sorted(named) == sorted(reason.value for reason in BatchReason)
