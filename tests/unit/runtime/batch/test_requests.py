"""From a row to a request: templates cannot leave their sandbox, and errors belong to the row."""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from daybreak_runtime.batch.engines import in_json, prepare_rows
from daybreak_runtime.batch.order import Request, Service
from daybreak_runtime.batch.rows import requests
from daybreak_runtime.batch.rows.prepare import prepared
from daybreak_runtime.batch.rows.requests import render, sampling_params
from daybreak_runtime.batch.rows.row_error import RowError
from daybreak_runtime.batch.service import ask
from daybreak_runtime.http.retry_after import retry_after
from daybreak_runtime.jobs.problem import JobProblem

SERVICE = Service("http://tiny/v1", "tiny")


class FakeTokenizer:
    """One token for each character; a chat template that wants a user."""

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> str:
        if conversation[-1]["role"] == "nobody":
            raise ValueError("roles must alternate")
        return "".join(f"<{each['role']}>{each['content']}" for each in conversation)

    def encode(self, text: str, **kwargs: Any) -> list[int]:
        return [ord(letter) for letter in text]


def text(found: Mapping[str, Any]) -> str:
    return "".join(map(chr, found["tokenized_prompt"]))


def test_template_reads_columns_as_variables_and_via_row() -> None:
    assert render("{{ q }}-{{ row['odd name'] }}", {"q": "a", "odd name": 1}) == "a-1"


@pytest.mark.parametrize(
    "template",
    [
        "{{ missing }}",
        "{{ q.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ 1 // 0 }}",
        "{% for n in range(100000000) %}{{ n }}{% endfor %}",
        "{{ row.update({'a': 1}) }}",
    ],
)
def test_failing_template_raises_row_error(template: str) -> None:
    with pytest.raises(RowError):
        render(template, {"q": "a"})


def test_rendered_text_above_limit_raises_row_error() -> None:
    with pytest.raises(RowError, match="makes more than"):
        render("{% for n in range(9999) %}{{ q }}{% endfor %}", {"q": "x" * 10_000})


def test_invalid_template_ends_the_batch() -> None:
    with pytest.raises(JobProblem, match=r"spec\.prompt: line 2") as found:
        requests.check(Request(prompt="a\n{{ q"))
    assert found.value.reason == "TemplateInvalid"


def test_row_sampling_params_override_batch_sampling_params() -> None:
    request = Request(sampling_params={"max_tokens": 4, "seed": 1}, sampling_params_column="p")
    assert sampling_params(request, {"p": {"max_tokens": 8, "top_p": None}}) == {"max_tokens": 8, "seed": 1}
    assert sampling_params(request, {"p": '{"seed": 2}'}) == {"max_tokens": 4, "seed": 2}
    for wrong in ({"p": "{"}, {"p": 3}, {}):
        with pytest.raises(RowError):
            sampling_params(request, wrong)


def test_prompt_uses_chat_template_unless_disabled() -> None:
    found = prepared(Request(prompt="hi {{ q }}"), FakeTokenizer(), {"q": "you"})
    assert text(found) == "<user>hi you"
    found = prepared(Request(prompt="hi {{ q }}", use_chat_template=False), FakeTokenizer(), {"q": "you"})
    assert text(found) == "hi you"
    found = prepared(Request(prompt="{{ q }}", use_chat_template=False, tokenize=False), None, {"q": "you"})
    assert found == {"prompt": "you", "sampling_params": {"max_tokens": None}}


def test_messages_column_is_rendered_and_invalid_value_raises_row_error() -> None:
    request = Request(messages_column="m")
    assert text(prepared(request, FakeTokenizer(), {"m": '[{"role": "user", "content": "a"}]'})) == "<user>a"
    for wrong in ([{"role": "nobody", "content": "a"}], [], "x", [{"content": "a"}]):
        with pytest.raises(RowError):
            prepared(request, FakeTokenizer(), {"m": wrong})


def test_empty_prompt_raises_row_error() -> None:
    with pytest.raises(RowError, match="empty"):
        prepared(Request(prompt="{{ q }}", use_chat_template=False), FakeTokenizer(), {"q": ""})


def test_openai_row_is_prepared_and_wrong_url_or_task_raises_row_error() -> None:
    body = {"messages": [{"role": "user", "content": "a"}], "max_completion_tokens": 5, "temperature": 0}
    row = {"custom_id": "c", "method": "POST", "url": "/v1/chat/completions", "body": body}
    found = prepared(Request(), FakeTokenizer(), row)
    assert found["sampling_params"] == {"max_tokens": 5, "temperature": 0}
    assert ask(SERVICE, Request(), row) == ("/chat/completions", {**body, "model": "tiny", "stream": False})
    with pytest.raises(RowError, match="is not served"):
        prepared(Request(), FakeTokenizer(), {**row, "url": "/v1/images"})
    with pytest.raises(RowError, match="is no embed"):
        prepared(Request(task="embed"), FakeTokenizer(), row)


CHAT, TEXT, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
ASKED: Mapping[str, Mapping[str, Any]] = {
    CHAT: {"messages": [{"role": "user", "content": "a"}]},
    TEXT: {"prompt": "a"},
    EMBED: {"input": "a"},
}


def of_batch_file(url: str, more: Mapping[str, Any]) -> dict[str, Any]:
    row = {"custom_id": "c", "method": "POST", "url": url, "body": {**ASKED[url], **more}}
    return prepared(Request(task="embed" if url == EMBED else "generate"), FakeTokenizer(), row)


@pytest.mark.parametrize(
    ("url", "more", "named"),
    [
        (CHAT, {"n": 2}, "n"),
        (TEXT, {"n": 2}, "n"),
        (CHAT, {"logprobs": True}, "logprobs"),
        (CHAT, {"logprobs": True, "top_logprobs": 3}, "logprobs, top_logprobs"),
        (TEXT, {"logprobs": 0}, "logprobs"),
        (CHAT, {"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
        (CHAT, {"tool_choice": "required"}, "tool_choice"),
        (CHAT, {"logit_bias": {"50256": -100}}, "logit_bias"),
        (CHAT, {"response_format": {"type": "structural_tag"}}, "response_format"),
        (TEXT, {"echo": True}, "echo"),
        (TEXT, {"suffix": "."}, "suffix"),
        (TEXT, {"best_of": 3}, "best_of"),
        (EMBED, {"dimensions": 8}, "dimensions"),
        (EMBED, {"encoding_format": "base64"}, "encoding_format"),
        (EMBED, {"something_new": 1}, "something_new"),
    ],
)
def test_unsupported_body_field_raises_row_error(url: str, more: Mapping[str, Any], named: str) -> None:
    with pytest.raises(RowError, match=f"requests {named}: ") as found:
        of_batch_file(url, more)
    assert "serviceRef" in str(found.value)


@pytest.mark.parametrize(
    ("url", "more"),
    [
        (CHAT, {"n": 1, "logprobs": False, "top_logprobs": None, "tools": [], "tool_choice": "none"}),
        (CHAT, {"model": "m", "user": "u", "metadata": {"a": "b"}, "stream": False, "store": False}),
        (CHAT, {"response_format": {"type": "text"}, "parallel_tool_calls": True, "logit_bias": {}}),
        (TEXT, {"echo": False, "suffix": None, "best_of": 1, "logprobs": None}),
        (EMBED, {"encoding_format": "float", "dimensions": None, "user": "u"}),
    ],
)
def test_body_fields_without_effect_are_ignored(url: str, more: Mapping[str, Any]) -> None:
    assert of_batch_file(url, more) == of_batch_file(url, {})


def test_service_receives_n_and_logprobs_of_the_body() -> None:
    row = {"custom_id": "c", "url": CHAT, "body": {**ASKED[CHAT], "n": 2, "logprobs": True}}
    assert {"n": 2, "logprobs": True}.items() <= ask(SERVICE, Request(), row)[1].items()


@pytest.mark.parametrize("name", ["n", "logprobs", "prompt_logprobs"])
def test_sampling_params_with_unsupported_output_raise_row_error(name: str) -> None:
    request = Request(prompt="{{ q }}", sampling_params_column="p")
    with pytest.raises(RowError, match=f"requests {name}: "):
        prepared(request, FakeTokenizer(), {"q": "a", "p": {name: 2}})
    found = prepared(request, FakeTokenizer(), {"q": "a", "p": {"n": 1, "logprobs": None}})
    assert found["sampling_params"] == {"max_tokens": None, "n": 1}


def test_service_path_and_body_follow_task_and_chat_template() -> None:
    path, body = ask(SERVICE, Request(prompt="{{ q }}", sampling_params={"max_tokens": 3}), {"q": "a"})
    assert (path, body["messages"], body["max_tokens"]) == (
        "/chat/completions",
        [{"role": "user", "content": "a"}],
        3,
    )
    assert ask(SERVICE, Request(prompt="{{ q }}", use_chat_template=False), {"q": "a"})[0] == "/completions"
    assert ask(SERVICE, Request(prompt="{{ q }}", task="embed"), {"q": "a"})[1]["input"] == "a"


SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


def test_guided_json_reaches_the_engine() -> None:
    request = Request(prompt="{{ q }}", guided_json=SCHEMA, sampling_params={"max_tokens": 8})
    [row] = prepare_rows(request, FakeTokenizer(), [(0, json.dumps({"q": "a"}))])
    requested = json.loads(row["request"])["sampling_params"]
    assert requested == {"max_tokens": 8, "structured_outputs": {"json": SCHEMA}}


@pytest.mark.parametrize(
    ("desired", "guided"),
    [
        ({"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}, {"json": SCHEMA}),
        ({"type": "json_object"}, {"json_object": True}),
        ({"type": "text"}, None),
    ],
)
def test_response_format_of_batch_file_reaches_the_engine(
    desired: Mapping[str, Any], guided: Mapping[str, Any] | None
) -> None:
    found = of_batch_file(CHAT, {"response_format": desired})
    assert found["sampling_params"].get("structured_outputs") == guided


@pytest.mark.parametrize("chat", [True, False])
def test_guided_json_reaches_the_service(chat: bool) -> None:
    request = Request(prompt="{{ q }}", guided_json=SCHEMA, use_chat_template=chat)
    assert ask(SERVICE, request, {"q": "a"})[1]["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": SCHEMA},
    }


def test_retry_after_parses_seconds_and_dates_up_to_a_limit() -> None:
    assert retry_after("7") == 7.0
    assert retry_after("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert retry_after("soon") is None
    assert retry_after(None) is None
    assert retry_after("1e9") == 600.0


def test_invalid_rows_do_not_affect_other_rows() -> None:
    odd = {"custom_id": "c", "url": "/v1/completions", "body": {"prompt": "a", "response_format": "text"}}
    rows = [(0, json.dumps(odd)), (1, json.dumps({"q": "a"})), (2, json.dumps({}))]
    found = prepare_rows(Request(prompt="{{ q }}"), FakeTokenizer(), rows)
    assert [bool(row["__inference_error__"]) for row in found] == [True, False, True]
    assert [row["row"] for row in found] == [0, 1, 2]
    assert found[1]["request"]


async def test_finish_reason_is_length_if_token_limit_is_reached() -> None:
    async def message() -> AsyncIterator[dict[str, Any]]:
        for index, tokens in enumerate((4, 3, 9)):
            yield {"i": index, "generated_text": "a", "num_input_tokens": 1, "num_generated_tokens": tokens}

    found = [json.loads(each["answer"]) async for each in in_json(message(), "i", {0: 4, 1: 4, 2: None})]
    assert [each["finish_reason"] for each in found] == ["length", "stop", "stop"]


async def test_engine_results_do_not_contain_the_request() -> None:
    async def message() -> Any:
        yield {"i": 0, "generated_text": "a", "num_input_tokens": 1}
        yield {"i": 1, "__inference_error__": "too long"}

    assert [each["request"] async for each in in_json(message(), "i", {})] == ["", ""]


async def test_score_of_more_than_one_number_is_a_row_error() -> None:
    async def message() -> Any:
        yield {"i": 0, "embeddings": [0.25], "num_input_tokens": 3}
        yield {"i": 1, "embeddings": [0.25, 0.75], "num_input_tokens": 3}
        yield {"i": 2, "__inference_error__": "too long"}

    found = [each async for each in in_json(message(), "i", {}, "score")]
    assert json.loads(found[0]["answer"]) == {"response": 0.25, "prompt_tokens": 3}
    assert json.loads(found[1]["answer"]) == {}
    assert "2 numbers and no score" in found[1]["__inference_error__"]
    assert found[2]["__inference_error__"] == "too long"
    classes = [each async for each in in_json(message(), "i", {}, "classify")]
    assert json.loads(classes[1]["answer"])["response"] == [0.25, 0.75]


def test_chat_template_kwargs_of_body_override_those_of_batch() -> None:
    observed: list[dict[str, Any]] = []

    class Noting(FakeTokenizer):
        def apply_chat_template(self, conversation: Any, **kwargs: Any) -> str:
            observed.append(kwargs)
            return super().apply_chat_template(conversation, **kwargs)

    request = Request(chat_template_kwargs={"enable_thinking": True, "style": "short"})
    body = {**ASKED[CHAT], "chat_template_kwargs": {"enable_thinking": 0}}
    row: dict[str, Any] = {"custom_id": "c", "url": CHAT, "body": body}
    prepared(request, Noting(), row)
    assert (observed[0]["enable_thinking"], observed[0]["style"]) == (0, "short")
    for wrong in ({"tokenize": True}, {"chat_template": "x"}, [1]):
        row["body"] = {**ASKED[CHAT], "chat_template_kwargs": wrong}
        with pytest.raises(RowError):
            prepared(request, Noting(), row)


def test_null_max_completion_tokens_falls_back_to_max_tokens() -> None:
    found = of_batch_file(CHAT, {"max_completion_tokens": None, "max_tokens": 5})
    assert found["sampling_params"]["max_tokens"] == 5


def test_batch_sampling_params_apply_to_embeddings_of_batch_file() -> None:
    row = {"custom_id": "c", "url": EMBED, "body": ASKED[EMBED]}
    found = prepared(Request(task="embed", sampling_params={"dimensions": 8}), FakeTokenizer(), row)
    assert found["pooling_params"] == {"dimensions": 8}


def test_guided_json_with_conflicting_row_format_raises_row_error() -> None:
    request = Request(prompt="{{ q }}", guided_json=SCHEMA, sampling_params_column="p")
    with pytest.raises(RowError, match="guidedJson"):
        prepared(request, FakeTokenizer(), {"q": "a", "p": {"structured_outputs": {"regex": "a"}}})
    row = {"custom_id": "c", "url": CHAT, "body": {**ASKED[CHAT], "response_format": {"type": "json_object"}}}
    with pytest.raises(RowError, match="guidedJson"):
        prepared(Request(guided_json=SCHEMA), FakeTokenizer(), row)


def test_a_message_with_tool_calls_needs_no_content() -> None:
    turns = [*ASKED[CHAT]["messages"], {"role": "assistant", "tool_calls": []}, ASKED[CHAT]["messages"][0]]
    row = {"custom_id": "c", "url": CHAT, "body": {"messages": turns}}
    assert text(prepared(Request(), FakeTokenizer(), row)) == "<user>a<assistant>None<user>a"


def test_lone_surrogate_in_messages_column_raises_row_error() -> None:
    request = Request(messages_column="m")
    with pytest.raises(RowError, match="surrogate"):
        prepared(request, FakeTokenizer(), {"m": '[{"role": "user", "content": "\\ud83d"}]'})
