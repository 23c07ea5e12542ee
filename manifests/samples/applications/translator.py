"""A transformer before an LLM, served as a model: it puts the user's text into a prompt and streams answers.

The LLM is any model of the namespace's gateway, which wakes the LLM: `args: {settings: {model: tiny}}`.
`importPath: translator:app`.
"""

from collections.abc import AsyncIterator

from daybreak_runtime.pipelines import Chat, ChatModel, Gateway, chat_application


class Translator(ChatModel):
    """Translator through an LLM.

    `settings.model` is the LLM, `settings.language` the target language, and `settings.gateway` another
    address.
    """

    async def load(self) -> None:
        """Prepare the gateway client without a request, so that the LLM may sleep."""
        self.gateway = Gateway(str(self.settings.get("gateway", "")))

    async def answer(self, chat: Chat) -> AsyncIterator[str]:
        """Yield the LLM's pieces as they arrive."""
        language = self.settings.get("language", "German")
        messages = [
            {"role": "system", "content": f"Translate what the user says into {language}. Say nothing else."},
            {"role": "user", "content": chat.text},
        ]
        async for piece in self.gateway.chat_stream(str(self.settings["model"]), messages, **chat.parameters):
            yield piece


app = chat_application(Translator)
