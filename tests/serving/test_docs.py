"""The example of docs/runtime.md runs as it is there, and a loader with a tiny model."""

import json
import re

import pytest

from tests.serving.conftest import block, post

pytestmark = [pytest.mark.xdist_group("serving"), pytest.mark.timeout(600)]


def test_documented_example_answers_its_curl_request(serving: str) -> None:
    found = re.fullmatch(r"curl \$ADDRESS(\S+) -d '(.*)'\s*", block("sh"), re.DOTALL)
    assert found
    status, answer = post(f"{serving}/docs{found[1]}", json.loads(found[2]))
    assert status == 200, answer
    assert [each["data"] for each in answer["outputs"]] == [["POSITIVE", "NEGATIVE"], [1.0, 0.0]]
    empty = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": [""]}]}
    assert post(f"{serving}/docs{found[1]}", empty) == (400, {"error": "a text is empty"})


def test_transformers_pipeline_answers_inference_request(serving: str) -> None:
    requested = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [2], "data": ["good", "bad bad"]}]}
    status, answer = post(f"{serving}/tiny/v2/models/tiny/infer", requested)
    assert status == 200, answer
    outputs = {each["name"]: each["data"] for each in answer["outputs"]}
    assert set(outputs["label"]) <= {"LABEL_0", "LABEL_1"}
    assert all(0.4 < score <= 1 for score in outputs["score"])
