"""Fields of a benchmark: valid values, and helpful messages for rejected ones."""

import enum
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import jsonschema
import pytest
import yaml

from daybreak.api.llmbenchmark import crd, load, spec
from daybreak.api.llmbenchmark.definition import NAME_RULES, LLMBenchmark
from daybreak.api.llmbenchmark.status import BenchmarkConditionType, BenchmarkPhase, BenchmarkReason
from daybreak.api.llmbenchmark.validation import problems
from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.custom_object import InvalidSpec
from scripts.docs import docstrings
from scripts.docs.benchmark_api import benchmark_api_md
from scripts.kinds import LLM_BENCHMARK
from scripts.schemas.json_schema import json_schema
from tests.unit.llmbenchmark.benchmarks import MODEL, benchmark, manifest, of_service

BY_RULE: list[tuple[dict[str, Any], str]] = [
    ({"model": None}, "a benchmark needs either model or serviceRef"),
    ({"serviceRef": {"name": "a"}}, "a benchmark needs either model or serviceRef"),
    ({"load": {}}, "a load has either clients or rates"),
    ({"load": {"clients": [1], "rates": [1]}}, "a load has either clients or rates"),
    ({"load": {"clients": [1], "promptTokens": {"min": 9, "max": 8}}}, "max must not be below min"),
    ({"load": {"clients": [1], "traceFrom": {}}}, "either a uri or a configMapKeyRef"),
    (
        {
            "load": {
                "clients": [1],
                "traceFrom": {"uri": "s3://b/x", "configMapKeyRef": {"name": "a", "key": "b"}},
            }
        },
        "either a uri or a configMapKeyRef",
    ),
    (
        {
            "load": {
                "clients": [1],
                "trace": [{"prompt": 1, "output": 1}],
                "traceFrom": {"uri": "s3://b/x"},
            }
        },
        "lengths are either recorded or traceFrom a table",
    ),
    (
        {"load": {"clients": [1], "traceFrom": {"uri": "http://b/x"}}},
        "is no place for a table: write pvc://",
    ),
    (of_service(mode="Service"), "a sweep restarts engines"),
    ({"applyMode": "Patch"}, "applyMode Patch writes what a sweep has found"),
    (of_service() | {"applyMode": "Patch", "sweep": None}, "applyMode Patch writes what a sweep has found"),
    (
        of_service() | {"applyMode": "Patch", "schedule": {"start": "0 2 * * *"}},
        "applyMode Patch writes once: with a schedule",
    ),
    ({"output": {"uri": "file:///x"}}, "write pvc://claim/path"),
    ({"output": {"uri": "pvc://a/../b"}}, "a path must not contain '..'"),
    ({"colour": "red"}, "there is no such field"),
]
BY_PROBLEM: list[tuple[dict[str, Any], str]] = [
    ({"sweep": [{"argument": "max_num_seq", "values": [1]}]}, "max_num_seqs"),
    ({"sweep": [{"argument": "tensor_parallel_size", "values": [1]}]}, "spec.sweep: tensor_parallel_size"),
    ({"sweep": [{"argument": "max_num_seqs", "values": ["many"]}]}, "spec.sweep: max_num_seqs"),
    ({"sweep": [{"argument": "max_num_seqs", "values": [1, 1]}]}, "a value is there twice"),
    ({"model": MODEL | {"engine": {"args": {"max_num_seq": 1}}}}, "spec.model.engine.args.max_num_seq"),
    (
        {"model": {"name": "a", "source": "hf://a/b", "cache": {"size": "1Gi"}}},
        "a benchmark fills no claim",
    ),
    ({"model": {"name": "a", "source": "hf://a/b", "parallelism": {"pipeline": 2}}}, "placement STRICT_PACK"),
    ({"schedule": {"start": "0 25 * * *"}}, "spec.schedule.start: 0 25 * * * has a bad hour"),
    ({"schedule": {"start": "0 2 * * *", "timeZone": "Europe/Berlim"}}, "did you mean Europe/Berlin?"),
    ({"sweep": [{"argument": "chat_template", "values": ["x" * 110_000]}]}, "characters exceed the limit of"),
]


@pytest.mark.parametrize(("change", "words"), BY_RULE)
def test_spec_that_breaks_rule_is_rejected_with_message(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidSpec) as found:
        LLMBenchmark.from_manifest(manifest(**change))
    assert words in str(found.value)


@pytest.mark.parametrize(("change", "words"), BY_PROBLEM)
def test_spec_problem_is_reported_with_message(change: dict[str, Any], words: str) -> None:
    assert words in "; ".join(problems(benchmark(**change)))


def test_every_spec_rule_has_rejection_case() -> None:
    own = [
        rule.message
        for module in (spec, load)
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, ApiModel) and each.__module__ == module.__name__
        for rule in each.rules
    ]
    assert len(own) == 8
    for message in own:
        assert any(words in message or message in words for _, words in BY_RULE), message


@pytest.mark.parametrize("name", ["Tune", "1st", "a-", "a" * 41])
def test_invalid_name_is_rejected(name: str) -> None:
    whole = manifest()
    whole["metadata"]["name"] = name
    with pytest.raises(InvalidSpec, match=r"metadata\.name"):
        LLMBenchmark.from_manifest(whole)
    assert not all(rule.holds(name) for rule in NAME_RULES)


@pytest.mark.parametrize(
    "change",
    [
        {},
        of_service(),
        {**of_service(mode="Service"), "sweep": None},
        {"load": {"rates": [0.5, 2], "trace": [{"prompt": 3, "output": 4}]}},
        {"load": {"clients": [1], "traceFrom": {"uri": "pvc://traces/day.parquet", "promptColumn": "in"}}},
        {"sweep": [{"argument": "gpu_memory_utilization", "values": [0.5, 0.9]}]},
    ],
)
def test_valid_spec_passes_json_schema(change: dict[str, Any]) -> None:
    assert problems(benchmark(**change)) == ()
    whole = manifest(**change)
    whole["metadata"] = {"name": "tune"}
    jsonschema.validate(whole, json_schema(LLM_BENCHMARK))


def examples() -> list[dict[str, Any]]:
    """Return the examples of docs/tuning.md: a whole benchmark, and parts of others."""
    page = (Path(__file__).parents[3] / "docs" / "tuning.md").read_text()
    whole = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    loads = re.findall(r"^      load:\n(?:       .*\n)+", page, re.MULTILINE)
    return [yaml.safe_load(text)["spec"] for text in whole] + [yaml.safe_load(dedent(text)) for text in loads]


@pytest.mark.parametrize("change", examples())
def test_documented_examples_are_valid(change: dict[str, Any]) -> None:
    own = {"model": None} if "serviceRef" in change else {}
    assert problems(benchmark(**own, **change)) == ()


def test_crd_has_expected_names_and_progress_columns() -> None:
    found = crd.CRD.manifest()
    assert found["metadata"]["name"] == "llmbenchmarks.daybreak.dev"
    assert found["spec"]["names"]["shortNames"] == ["llmbench"]
    [version] = found["spec"]["versions"]
    assert {"Progress", "Best", "Gain"} <= {c["name"] for c in version["additionalPrinterColumns"]}


@pytest.mark.parametrize("words", [BenchmarkConditionType, BenchmarkPhase, BenchmarkReason])
def test_every_status_value_has_docstring(words: type[enum.Enum]) -> None:
    meanings = docstrings.of_members(words)
    assert list(meanings) == list(words.__members__)
    assert all(meanings.values())


def test_every_api_field_has_description() -> None:
    rows = [line for line in benchmark_api_md().splitlines() if line.startswith("| `")]
    assert len(rows) > 60
    assert all(row.rstrip(" |").rpartition("| ")[2] for row in rows)


def test_documented_reasons_match_reason_enum() -> None:
    page = (Path(__file__).parents[3] / "docs" / "tuning.md").read_text().partition("## Reasons")[2]
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = [name for cell in cells for name in re.findall("`([A-Za-z]+)`", cell)]
    assert sorted(named) == sorted(reason.value for reason in BenchmarkReason)
