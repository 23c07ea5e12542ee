"""An LLM of the same application, called by Serve's handle."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from daybreak_runtime.v2.problem import Problem

Messages = str | Sequence[Mapping[str, Any]]


class LLM:
    """An LLM of `spec.llms`: `await llm.chat("Hello")` gives its answer.

    Args:
        name: Of the model.
        handle: Serve's, of its deployment.
    """

    def __init__(self, name: str, handle: Any) -> None:
        # Of vLLM's own, and slow to import: at the start of a replica, not with its first request.
        from ray.serve.llm.openai_api_models import ChatCompletionRequest

        self.name = name
        self.handle = handle
        self._request = ChatCompletionRequest

    async def chat(self, messages: Messages, **parameters: Any) -> str:
        """The text of its answer.

        Args:
            messages: As OpenAI has them, or what a user says.
            parameters: Of the request, by OpenAI's names: `max_tokens`, `temperature` ...

        Raises:
            Problem: It does not answer, with its status.
        """
        # To the end: what is left half read would be cancelled.
        said = [found async for found in self._ask(messages, parameters, stream=False)]
        if not said:
            raise Problem(f"{self.name} gave no answer", 502)
        return str(said[0]["choices"][0]["message"]["content"] or "")

    async def stream(self, messages: Messages, **parameters: Any) -> AsyncIterator[str]:
        """The same in pieces, as they come. Raises Problem."""
        async for found in self._ask(messages, parameters, stream=True):
            for choice in found.get("choices") or ():
                if piece := choice.get("delta", {}).get("content"):
                    yield str(piece)

    async def _ask(
        self, messages: Messages, parameters: Mapping[str, Any], *, stream: bool
    ) -> AsyncIterator[Mapping[str, Any]]:
        """What it sends, each as an object."""
        said = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        try:
            request = self._request(model=self.name, messages=said, stream=stream, **parameters)
        except ValueError as error:
            raise Problem(f"{self.name}: {error}"[:500], 400) from None
        async for part in self.handle.options(stream=True).chat.remote(request):
            for each in part if isinstance(part, list) else [part]:
                for found in _objects(each):
                    self._check(found)
                    yield found

    def _check(self, found: Mapping[str, Any]) -> None:
        error = found.get("error")
        if isinstance(error, Mapping):
            code = error.get("code")
            raise Problem(f"{self.name}: {error.get('message')}", code if isinstance(code, int) else 502)


def _objects(part: Any) -> list[Mapping[str, Any]]:
    """What one part holds: vLLM's own types, or lines of an event stream."""
    if not isinstance(part, str):
        return [part.model_dump()]
    lines = [line.removeprefix("data: ") for line in part.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]
