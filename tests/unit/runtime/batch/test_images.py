"""Images of rows: for each form in a table, the engine gets files and a service gets URLs."""

import base64
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from PIL import Image
from pyarrow import parquet

from daybreak_runtime.batch.order import Engines, Place, Request, Service
from daybreak_runtime.batch.rows import images
from daybreak_runtime.batch.rows.prepare import prepared, tokenizer
from daybreak_runtime.batch.rows.reading import input_files, rows
from daybreak_runtime.batch.rows.row_error import RowError
from daybreak_runtime.batch.rows.staging import stage
from daybreak_runtime.batch.service import ask
from daybreak_runtime.jobs.storage import storage
from tests.unit.runtime.batch.test_requests import FakeTokenizer

SERVICE = Service("http://seer/v1", "seer")
QUESTION = Request(prompt="What is this? {{ name }}", images=("photo",))


def drawn(kind: str = "PNG") -> bytes:
    """Return a small picture in a file of this kind."""
    file = io.BytesIO()
    Image.new("RGB", (4, 2), (200, 10, 10)).save(file, kind)
    return file.getvalue()


class Parts(FakeTokenizer):
    """A chat template that takes parts, as those of models that see do."""

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> str:
        def message(content: Any) -> str:
            if isinstance(content, str):
                return content
            return "".join("[image]" if each["type"] == "image" else each["text"] for each in content)

        return "".join(f"<{each['role']}>{message(each['content'])}" for each in conversation)


def prompt(found: dict[str, Any]) -> str:
    return "".join(map(chr, found["tokenized_prompt"]))


def encoded(kind: str = "PNG") -> str:
    return base64.b64encode(drawn(kind)).decode()


@pytest.mark.parametrize("wrapped", [False, True], ids=["bytes", "as Hugging Face's tables have them"])
def test_image_bytes_of_table_reach_engine_unchanged(tmp_path: Path, wrapped: bool) -> None:
    picture: Any = {"bytes": drawn(), "path": "a.png"} if wrapped else drawn()
    parquet.write_table(pyarrow.table({"photo": [picture], "name": ["a"]}), tmp_path / "in.parquet")
    place = Place(f"file://{tmp_path}/in.parquet", "Auto")
    source = storage(place.uri)
    staged = stage(rows(place, input_files(place, source), source), set(), tmp_path / "staged", 8)
    [line] = staged.blocks[0].lines()
    found = prepared(QUESTION, Parts(), json.loads(line)["columns"])
    assert [images.content(each) for each in found["images"]] == [drawn()]
    assert prompt(found) == "<user>[image]What is this? a"


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WebP", "GIF", "BMP", "TIFF"])
def test_base64_image_becomes_data_url_of_its_type(kind: str) -> None:
    assert images.url(encoded(kind), "x", remote=False) == f"data:image/{kind.lower()};base64,{encoded(kind)}"


def test_image_data_url_is_unchanged() -> None:
    whole = f"data:image/png;base64,{encoded()}"
    assert images.url(whole, "x", remote=False) == whole


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "column photo holds no image"),
        ("", "column photo holds no image"),
        (7, "column photo holds no image"),
        ({"path": "a.png"}, "column photo holds no image"),
        ("cats/a.png", "in base64"),
        (base64.b64encode(b"some text that is long enough").decode(), "PNG, JPEG"),
        ("data:image/png,abc", "begins with data:image"),
        ("https://elsewhere/a.png", "is not fetched"),
        ("s3://bucket/a.png", "is not fetched"),
        ("file:///rows/a.png", "is not fetched"),
    ],
)
def test_invalid_image_value_raises_row_error(value: Any, words: str) -> None:
    with pytest.raises(RowError, match=words):
        prepared(QUESTION, Parts(), {"photo": value, "name": "a"})


def test_service_receives_data_and_https_urls_and_no_bucket_urls() -> None:
    path, body = ask(SERVICE, QUESTION, {"photo": encoded(), "name": "a"})
    url = f"data:image/png;base64,{encoded()}"
    content = [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "text", "text": "What is this? a"},
    ]
    assert (path, body["messages"]) == ("/chat/completions", [{"role": "user", "content": content}])
    _, body = ask(SERVICE, QUESTION, {"photo": "https://here/a.png", "name": "a"})
    assert body["messages"][0]["content"][0]["image_url"]["url"] == "https://here/a.png"
    with pytest.raises(RowError, match="is not fetched"):
        ask(SERVICE, QUESTION, {"photo": "gs://bucket/a.png", "name": "a"})


def test_service_receives_images_without_chat_template_and_for_embeddings() -> None:
    row = {"photo": encoded(), "name": "a"}
    bare = Request(prompt="{{ name }}", images=("photo",), use_chat_template=False)
    assert ask(SERVICE, bare, row)[0] == "/chat/completions"
    embed = Request(prompt="{{ name }}", images=("photo",), task="embed")
    path, body = ask(SERVICE, embed, row)
    assert (path, "input" in body, len(body["messages"][0]["content"])) == ("/embeddings", False, 2)


def test_images_precede_the_text_of_the_last_user_message() -> None:
    message = (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "{{ name }}?"},
        {"role": "assistant", "content": "It is"},
    )
    request = Request(messages=message, images=("photo", "other"))
    found = prepared(request, Parts(), {"photo": encoded(), "other": encoded("JPEG"), "name": "a"})
    assert prompt(found) == "<system>Be brief.<user>[image][image]a?<assistant>It is"
    assert [each[:15] for each in found["images"]] == ["data:image/png;", "data:image/jpeg"]


def test_images_in_messages_of_column_or_batch_file_reach_the_engine() -> None:
    url = f"data:image/png;base64,{encoded()}"
    content = [
        {"type": "text", "text": "Is "},
        {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
        {"type": "text", "text": " red?"},
    ]
    message = [{"role": "user", "content": content}]
    row = {"custom_id": "c", "url": "/v1/chat/completions", "body": {"messages": message}}
    for found in (
        prepared(Request(messages_column="m"), Parts(), {"m": message}),
        prepared(Request(), Parts(), row),
    ):
        assert prompt(found) == "<user>Is [image] red?"
        assert found["images"] == [url]


def test_text_only_parts_are_joined_into_one_text() -> None:
    message = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    found = prepared(Request(messages_column="m"), FakeTokenizer(), {"m": message})
    assert prompt(found) == "<user>a\nb"
    assert "images" not in found


@pytest.mark.parametrize("part", [{"type": "input_audio"}, {"type": "text"}, "text", {}])
def test_unsupported_message_part_raises_row_error(part: Any) -> None:
    with pytest.raises(RowError, match="a part of type"):
        prepared(Request(messages_column="m"), Parts(), {"m": [{"role": "user", "content": [part]}]})


def test_prompt_without_chat_template_keeps_its_image_placeholder() -> None:
    request = Request(prompt="<image>{{ name }}", images=("photo",), use_chat_template=False)
    found = prepared(request, Parts(), {"photo": encoded(), "name": "a"})
    assert prompt(found) == "<image>a"
    assert found["images"] == [f"data:image/png;base64,{encoded()}"]


class Transformers:
    """The library's two classes, for a model whose files say where its chat template is."""

    def __init__(self, tokenizers: str | None = None, processors: str | None = None) -> None:
        self.requested: list[tuple[Any, ...]] = []
        self._tokenizers, self._processors = tokenizers, processors

    @property
    def AutoTokenizer(self) -> Any:  # noqa: N802 - the name in transformers
        return SimpleNamespace(from_pretrained=lambda *_, **__: self._found("tokenizer", self._tokenizers))

    @property
    def AutoProcessor(self) -> Any:  # noqa: N802 - the name in transformers
        return SimpleNamespace(from_pretrained=lambda *args, **more: self._processor(args, more))

    def _processor(self, args: tuple[Any, ...], more: dict[str, Any]) -> Any:
        if self._processors is None:
            raise OSError("no processor here")
        self.requested.append((*args, more))
        return self._found("processor", self._processors)

    def _found(self, kind: str, template: str | None) -> Any:
        return SimpleNamespace(kind=kind, chat_template=template)


SEER = Engines("seer", {"tokenizer_revision": "r1"}, {}, "prepare")


@pytest.mark.parametrize(
    ("tokenizers", "processors", "template"),
    [("own", "other", "own"), (None, "processor's", "processor's"), (None, None, None)],
)
def test_chat_template_is_taken_from_processor_if_tokenizer_has_none(
    monkeypatch: pytest.MonkeyPatch, tokenizers: str | None, processors: str | None, template: str | None
) -> None:
    library = Transformers(tokenizers, processors)
    monkeypatch.setitem(sys.modules, "transformers", library)
    found = tokenizer(SEER, QUESTION)
    assert (found.kind, found.chat_template) == ("tokenizer", template)
    if template == "processor's":
        assert library.requested == [("seer", {"revision": "r1", "trust_remote_code": False})]
    else:
        assert library.requested == []


@pytest.mark.parametrize(
    ("request_", "desired"),
    [
        (Request(prompt="a", use_chat_template=False), True),
        (Request(prompt="a", use_chat_template=False, tokenize=False), False),
        (Request(prompt="a", task="embed", tokenize=False), False),
        (Request(messages_column="m", task="classify", tokenize=False), True),
        (Request(prompt="a", chat_template="given"), True),
    ],
)
def test_processor_is_not_loaded_if_no_chat_template_is_missing(
    monkeypatch: pytest.MonkeyPatch, request_: Request, desired: bool
) -> None:
    library = Transformers("own" if request_.messages_column else None, "processor's")
    monkeypatch.setitem(sys.modules, "transformers", library)
    assert (tokenizer(SEER, request_) is not None) == desired
    assert library.requested == []
