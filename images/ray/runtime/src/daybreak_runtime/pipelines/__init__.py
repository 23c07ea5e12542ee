"""Pieces of pipelines: steps by handle, several at once, other services through the gateway, chat models."""

from daybreak_runtime.models.step import Step
from daybreak_runtime.pipelines.chat import Chat, ChatModel
from daybreak_runtime.pipelines.chat_application import chat_application
from daybreak_runtime.pipelines.gateway import Gateway
from daybreak_runtime.pipelines.steps import Joined, together

__all__ = ["Chat", "ChatModel", "Gateway", "Joined", "Step", "chat_application", "together"]
