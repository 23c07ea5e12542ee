"""Pipelines on a real Ray Serve: the samples, steps at once, and a pipeline as a model of OpenAI's API."""

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.serving.conftest import post

pytestmark = [pytest.mark.xdist_group("serving"), pytest.mark.timeout(600)]
TEXT = "<p>The gateway is fast and reliable.</p> The gateway holds requests. It rained."


def send_request(**inputs: str | float) -> dict[str, object]:
    kinds = {str: "BYTES", float: "FP64"}
    return {
        "inputs": [
            {"name": name, "datatype": kinds[type(value)], "shape": [1], "data": [value]}
            for name, value in inputs.items()
        ]
    }


def test_pipeline_returns_outputs_of_two_models_behind_preprocessor(serving: str) -> None:
    status, found = post(f"{serving}/documents/v2/models/documents/infer", send_request(text=TEXT))
    outputs = {each["name"]: each["data"] for each in found["outputs"]}
    assert (status, outputs["sentiment"], outputs["failed"]) == (200, ["POSITIVE"], [])
    assert outputs["summary"] == ["The gateway is fast and reliable."]
    status, found = post(f"{serving}/documents/v2/models/documents/infer", send_request(text="<p> </p>"))
    assert (status, found) == (400, {"error": "the text is empty"})


def test_pipeline_answers_if_summary_step_fails(serving: str) -> None:
    status, found = post(f"{serving}/unsummed/v2/models/documents/infer", send_request(text=TEXT))
    outputs = {each["name"]: each["data"] for each in found["outputs"]}
    assert (status, outputs) == (200, {"sentiment": ["POSITIVE"], "summary": [""], "failed": ["summary"]})


@pytest.mark.parametrize(
    ("first", "second", "status", "report"),
    [
        (0.1, 0.1, 200, ["first", "second"]),
        (0.1, 30.0, 200, ["first", "failed second"]),
        (0.1, -1.0, 200, ["first", "failed second"]),
        (30.0, 0.1, 504, "first took too long"),
        (-1.0, 0.1, 500, "first: slow: predict of slow failed: ArithmeticError: there is no such time"),
    ],
)
def test_pipeline_with_parallel_steps_fails_only_if_required_step_fails(
    serving: str, first: float, second: float, status: int, report: object
) -> None:
    found = post(f"{serving}/joins/v2/models/joins/infer", send_request(first=first, second=second))
    assert found[0] == status
    assert (found[1]["outputs"][0]["data"] if status == 200 else found[1]["error"]) == report


def user(text: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": text}]


@pytest.fixture
def talk(serving: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://{serving}/shouter/v1", api_key="none", max_retries=0)


def test_pipeline_is_listed_and_answers_as_openai_model(talk: openai.OpenAI) -> None:
    assert [each.id for each in talk.models.list()] == ["shout"]
    messages = user("good day")
    answer = talk.chat.completions.create(model="shout", messages=messages)
    assert answer.choices[0].message.content == "GOOD DAY "
    stream = talk.chat.completions.create(model="shout", messages=messages, stream=True)
    pieces = [each.choices[0].delta.content for each in stream]
    assert [piece for piece in pieces if piece] == ["GOOD ", "DAY "]


def test_pipeline_errors_are_openai_errors(talk: openai.OpenAI) -> None:
    messages = user("all fail")
    with pytest.raises(openai.NotFoundError, match="there is no model other"):
        talk.chat.completions.create(model="other", messages=messages)
    with pytest.raises(openai.BadRequestError, match="messages"):
        talk.chat.completions.create(model="shout", messages=[])
    with pytest.raises(openai.InternalServerError, match="as told"):
        talk.chat.completions.create(model="shout", messages=messages)
    stream = talk.chat.completions.create(model="shout", messages=messages, stream=True)
    with pytest.raises(openai.APIError, match="as told"):
        list(stream)


def test_transformer_before_llm_streams_answer_in_pieces(serving: str) -> None:
    talk = openai.OpenAI(base_url=f"http://{serving}/translator/v1", api_key="none", max_retries=0)
    messages = user("good day")
    stream = talk.chat.completions.create(model="translator", messages=messages, stream=True)
    pieces = [each.choices[0].delta.content for each in stream]
    assert [piece for piece in pieces if piece] == ["GOOD ", "DAY "]
