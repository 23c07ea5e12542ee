"""Components of pipelines.

Steps by handle, concurrent steps, other services through the gateway, and chat models.

Only `chat_application` needs Ray.
"""

from typing import TYPE_CHECKING, Any

from daybreak_runtime.models.step import Step
from daybreak_runtime.pipelines.chat import Chat, ChatModel
from daybreak_runtime.pipelines.gateway import Gateway
from daybreak_runtime.pipelines.steps import Joined, together

if TYPE_CHECKING:
    from daybreak_runtime.pipelines.chat_server import chat_application

__all__ = ["Chat", "ChatModel", "Gateway", "Joined", "Step", "chat_application", "together"]


def __getattr__(name: str) -> Any:
    if name != "chat_application":
        raise AttributeError(f"{__name__} has no {name}")
    from daybreak_runtime.pipelines.chat_server import chat_application

    return chat_application
