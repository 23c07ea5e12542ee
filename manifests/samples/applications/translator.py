"""A transformer before an LLM, offered as a model: what the user says is put into a prompt, and streamed on.

The LLM is any model of the namespace's gateway, which wakes it: `args: {settings: {model: tiny}}`.
`importPath: translator:app`.
"""

from collections.abc import AsyncIterator

from daybreak_runtime.pipelines import Chat, ChatModel, Gateway, chat_application


class Translator(ChatModel):
    """`settings.model`: the LLM; `.language`: into which it translates; `.gateway`: another address."""

    async def load(self) -> None:
        """Nothing is asked yet, so the LLM may sleep."""
        self.gateway = Gateway(str(self.settings.get("gateway", "")))

    async def answer(self, chat: Chat) -> AsyncIterator[str]:
        """The LLM's own pieces, as they come."""
        language = self.settings.get("language", "German")
        messages = [
            {"role": "system", "content": f"Translate what the user says into {language}. Say nothing else."},
            {"role": "user", "content": chat.text},
        ]
        async for piece in self.gateway.chat_stream(str(self.settings["model"]), messages, **chat.parameters):
            yield piece


app = chat_application(Translator)
