"""LLM of the same application, called by Serve's handle."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from daybreak_runtime.v2.problem import Problem

Messages = str | Sequence[Mapping[str, Any]]


class LLM:
    """LLM of `spec.llms`: `await llm.chat("Hello")` returns its answer.

    Args:
        name: Name of the model.
        handle: Handle of Serve, of its deployment.
    """

    def __init__(self, name: str, handle: Any) -> None:
        # vLLM's own class, slow to import: at the start of a replica, not with its first request.
        from ray.serve.llm.openai_api_models import ChatCompletionRequest

        self.name = name
        self.handle = handle
        self._request = ChatCompletionRequest

    async def chat(self, messages: Messages, **parameters: Any) -> str:
        """Return the text of the answer.

        Args:
            messages: Messages in OpenAI's format, or the text of a user.
            parameters: Parameters of the request, by OpenAI's names: `max_tokens`, `temperature` ...

        Raises:
            Problem: The LLM does not answer, with its status.
        """
        # Read to the end, because a partly read stream would be canceled.
        message = [found async for found in self._ask(messages, parameters, stream=False)]
        if not message:
            raise Problem(f"{self.name} gave no answer", 502)
        return str(message[0]["choices"][0]["message"]["content"] or "")

    async def stream(self, messages: Messages, **parameters: Any) -> AsyncIterator[str]:
        """Yield the answer in pieces, as they arrive. Raises Problem."""
        async for found in self._ask(messages, parameters, stream=True):
            for choice in found.get("choices") or ():
                if piece := choice.get("delta", {}).get("content"):
                    yield str(piece)

    async def _ask(
        self, messages: Messages, parameters: Mapping[str, Any], *, stream: bool
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the LLM's responses, each as an object."""
        message = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        try:
            request = self._request(model=self.name, messages=message, stream=stream, **parameters)
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
    """Return the objects in one part: vLLM's own types, or lines of an event stream."""
    if not isinstance(part, str):
        return [part.model_dump()]
    lines = [line.removeprefix("data: ") for line in part.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]
