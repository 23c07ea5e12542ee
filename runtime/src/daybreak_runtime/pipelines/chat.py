"""Pipeline that is served as a model of OpenAI's chat API.

Its input is messages, and its output is text, whole or in pieces.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from daybreak_runtime.models.llm import LLM
from daybreak_runtime.models.step import Step
from daybreak_runtime.v2.problem import BadInput


@dataclass(frozen=True)
class Chat:
    """Request of a client.

    Attributes:
        messages: Messages in OpenAI's format.
        parameters: All other fields of the request: `temperature`, `max_tokens` ...
        stream: True if the client reads piece by piece.
    """

    messages: Sequence[Mapping[str, Any]]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = False

    @property
    def text(self) -> str:
        """Text of the last user message. Raises BadInput if it is no text."""
        for message in reversed(self.messages):
            if message.get("role") == "user":
                content = message.get("content")
                if isinstance(content, list):
                    parts = [part.get("text") for part in content if isinstance(part, dict)]
                    content = "".join(part for part in parts if isinstance(part, str))
                if isinstance(content, str):
                    return content
        raise BadInput("messages have no text of a user")


class ChatModel:
    """Base class of user chat models, with `answer`, which may also be an asynchronous generator of pieces.

    Attributes:
        name: Name in `/v1/models`.
        settings: `settings` of the arguments.
        uses: Models from `chat_application(..., uses=...)`.
        llms: LLMs of `spec.llms`, by their names.
    """

    name: str = ""
    settings: Mapping[str, Any]
    uses: Mapping[str, Step]
    llms: Mapping[str, LLM]

    answer: ClassVar[Any] = None
    """`async def answer(self, chat: Chat) -> str`, or `-> AsyncIterator[str]`."""

    async def load(self) -> None:
        """Prepare the model once, before the first request."""


def read(report: Any, name: str) -> Chat:
    """Return a request. Raises BadInput if it is invalid for this model."""
    if not isinstance(report, dict):
        raise BadInput("the request is no object")
    messages = report.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
        raise BadInput("messages have to be a list of objects")
    if report.get("n", 1) != 1:
        raise BadInput(f"{name} gives one choice")
    rest = {key: value for key, value in report.items() if key not in ("model", "messages", "stream", "n")}
    return Chat(messages, rest, report.get("stream") is True)


async def pieces(model: ChatModel, chat: Chat) -> AsyncIterator[str]:
    """Yield the model's answer, in as many pieces as it returns."""
    given = model.answer(chat)
    if not hasattr(given, "__aiter__"):
        given = await given
    if isinstance(given, str):
        yield given
        return
    async for piece in given:
        yield str(piece)
