"""Allowed paths of a replica.

The engine's app has more: documentation, its version, loading and unloading of adapters and experts, and in
development mode calls into the engine's processes. Only the listed paths are forwarded.
"""

import re

_GET = frozenset({"/v1/models", "/metrics"})
_POST = frozenset(
    {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/embeddings",
        "/v1/audio/transcriptions",
        "/v1/audio/translations",
        "/rerank",
        "/v1/rerank",
        "/v2/rerank",
        "/v2/embed",
        "/score",
        "/v1/score",
        "/classify",
        "/pooling",
        "/tokenize",
        "/detokenize",
    }
)
_MODEL = re.compile(r"/v1/models/.+")
STORED_RESPONSE = re.compile(r"/v1/responses/(?P<id>[^/]+)")
CANCEL_RESPONSE = re.compile(r"/v1/responses/(?P<id>[^/]+)/cancel")


def methods(path: str) -> frozenset[str]:
    """Return the methods that a path accepts, or none if it is not listed."""
    if path in _POST:
        return frozenset({"POST"})
    if path in _GET or _MODEL.fullmatch(path) or STORED_RESPONSE.fullmatch(path):
        return frozenset({"GET"})
    if CANCEL_RESPONSE.fullmatch(path):
        return frozenset({"POST"})
    return frozenset()


def asks_the_engine(path: str) -> bool:
    """Return True if a request for the path is work for the engine.

    Such requests count against the replica's limit.
    """
    return path in _POST


def stored_response(path: str) -> str | None:
    """Return the id of the stored response in a path, or None if the path has none."""
    found = STORED_RESPONSE.fullmatch(path) or CANCEL_RESPONSE.fullmatch(path)
    return found["id"] if found else None
