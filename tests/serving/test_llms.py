"""An application that asks an LLM by its handle, on a real Ray Serve; the LLM is played."""

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

pytestmark = [pytest.mark.xdist_group("serving"), pytest.mark.timeout(600)]


@pytest.fixture
def talk(serving: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"http://{serving}/asks/v1", api_key="none", max_retries=0)


def user(text: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "user", "content": text}]


def test_application_returns_llm_answer_whole_and_streamed(talk: openai.OpenAI) -> None:
    answer = talk.chat.completions.create(model="asks", messages=user("good day"))
    assert answer.choices[0].message.content == "good day (7)"
    stream = talk.chat.completions.create(model="asks", messages=user("good day"), stream=True)
    pieces = [chunk.choices[0].delta.content for chunk in stream]
    assert [piece for piece in pieces if piece] == ["good.", "day."]


def test_llm_rejection_is_returned_with_status_400(talk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="played: the prompt is too long"):
        talk.chat.completions.create(model="asks", messages=user("fail"))
