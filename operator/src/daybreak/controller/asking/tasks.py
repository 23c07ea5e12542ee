"""Probe requests by task: body, paths and check of the result."""

import io
import wave
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import aiohttp

from daybreak.api.common.task import Task
from daybreak.api.common.unstructured import mapping, mappings, number, text, whole

Body = Mapping[str, Any]
WAVE_RATE = 16_000
"""Samples per second of the recording that a transcription probe sends."""


@dataclass(frozen=True)
class Probe:
    """Minimal request that makes an engine compute.

    Attributes:
        paths: Paths of the task, the usual one first.
        request: Builds the body for a model's name.
        result: Name of the result, for messages.
        has_result: Return True if a body has a result.
        form: True if the body is sent as a form with a recording.
    """

    paths: Sequence[str]
    request: Callable[[str], dict[str, Any]]
    result: str
    has_result: Callable[[Body], bool]
    form: bool = False

    def body(self, model: str) -> Any:
        """Return the body for a model's name, as JSON or a form."""
        fields = self.request(model)
        if not self.form:
            return fields
        form = aiohttp.FormData(fields)
        form.add_field("file", _silence(), filename="silence.wav", content_type="audio/wav")
        return form


def _has_text(body: Body) -> bool:
    """Return True if a body has text, or tokens without text, such as the end token."""
    choices = mappings(body.get("choices"))
    texts = [text(each.get("text")) or text(mapping(each.get("message")).get("content")) for each in choices]
    tokens = whole(mapping(body.get("usage")).get("completion_tokens"))
    return bool(choices) and (any(texts) or tokens > 0)


def _has_embedding(body: Body) -> bool:
    """Return True if a body has numbers, or their bytes in base64."""
    vectors = [each.get("embedding") for each in mappings(body.get("data"))]
    return any(text(each) or _are_numbers(each) for each in vectors)


def _has_relevance(body: Body) -> bool:
    return any(_is_number(each.get("relevance_score")) for each in mappings(body.get("results")))


def _has_score(body: Body) -> bool:
    return any(_is_number(each.get("score")) for each in mappings(body.get("data")))


def _has_class(body: Body) -> bool:
    return any(
        text(each.get("label")) or _are_numbers(each.get("probs")) for each in mappings(body.get("data"))
    )


def _has_transcript(body: Body) -> bool:
    """Return True if a body has a transcript; a transcript of silence is empty."""
    return isinstance(body.get("text"), str)


def _is_number(value: object) -> bool:
    return number(value) is not None


def _are_numbers(values: object) -> bool:
    return isinstance(values, list) and bool(values) and all(map(_is_number, values))


@cache
def _silence() -> bytes:
    """Return one second of silence as a WAV file."""
    content = io.BytesIO()
    with wave.open(content, "wb") as recording:
        recording.setnchannels(1)
        recording.setsampwidth(2)
        recording.setframerate(WAVE_RATE)
        recording.writeframes(bytes(2 * WAVE_RATE))
    return content.getvalue()


# No probe sets a temperature or a seed. One greedy row moves the whole batch of vLLM to another sampler, and
# all requests wait while its kernel is compiled.
PROBES: Mapping[Task, Probe] = {
    Task.COMPLETIONS: Probe(
        ("/v1/completions",),
        lambda model: {"model": model, "prompt": "Hello", "max_tokens": 1},
        "a completion",
        _has_text,
    ),
    Task.CHAT: Probe(
        ("/v1/chat/completions",),
        lambda model: {
            "model": model,
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 1,
        },
        "a completion",
        _has_text,
    ),
    Task.EMBEDDINGS: Probe(
        ("/v1/embeddings",),
        lambda model: {"model": model, "input": "Hello"},
        "an embedding",
        _has_embedding,
    ),
    Task.RERANK: Probe(
        ("/v1/rerank", "/rerank"),
        lambda model: {"model": model, "query": "Hello", "documents": ["Hello"]},
        "a relevance score",
        _has_relevance,
    ),
    Task.SCORE: Probe(
        ("/v1/score", "/score"),
        lambda model: {"model": model, "text_1": "Hello", "text_2": "Hello"},
        "a score",
        _has_score,
    ),
    Task.CLASSIFY: Probe(
        ("/classify",), lambda model: {"model": model, "input": "Hello"}, "a class", _has_class
    ),
    Task.TRANSCRIPTION: Probe(
        ("/v1/audio/transcriptions",),
        lambda model: {"model": model},
        "a transcript",
        _has_transcript,
        form=True,
    ),
}
"""Probe of each task, in the order of attempts if an engine reports no tasks."""
_WORDS: Mapping[str, Task] = {
    "completion": Task.COMPLETIONS,
    "completions": Task.COMPLETIONS,
    "generate": Task.COMPLETIONS,
    "text-generation": Task.COMPLETIONS,
    "chat": Task.CHAT,
    "completion_chat": Task.CHAT,
    "chat-completion": Task.CHAT,
    "chat_completion": Task.CHAT,
    "embed": Task.EMBEDDINGS,
    "embedding": Task.EMBEDDINGS,
    "embeddings": Task.EMBEDDINGS,
    "feature-extraction": Task.EMBEDDINGS,
    "rerank": Task.RERANK,
    "reranker": Task.RERANK,
    "reranking": Task.RERANK,
    "score": Task.SCORE,
    "classify": Task.CLASSIFY,
    "classification": Task.CLASSIFY,
    "text-classification": Task.CLASSIFY,
    "transcribe": Task.TRANSCRIPTION,
    "transcription": Task.TRANSCRIPTION,
    "audio_transcription": Task.TRANSCRIPTION,
    "automatic-speech-recognition": Task.TRANSCRIPTION,
}
"""Engines' names of tasks in their model lists."""


def listed_tasks(card: Body) -> tuple[Task, ...]:
    """Return the tasks that an entry of the model list names, in the order of `PROBES`.

    Engines that report tasks use `capabilities` (a list or a map of booleans) or `task` (one word).
    """
    capabilities = card.get("capabilities")
    words: list[Any] = [card.get("task")]
    if isinstance(capabilities, dict):
        words += [name for name, value in capabilities.items() if value is True]
    elif isinstance(capabilities, list):
        words += capabilities
    named = {_WORDS.get(word.lower()) for word in words if isinstance(word, str)}
    return tuple(task for task in PROBES if task in named)


def documented_tasks(document: Body) -> tuple[Task, ...]:
    """Return the tasks whose paths an OpenAPI document has, in the order of `PROBES`."""
    paths = mapping(document.get("paths"))
    return tuple(task for task, probe in PROBES.items() if any(path in paths for path in probe.paths))


def in_order(*groups: Sequence[Task]) -> Iterator[Task]:
    """Yield each task once, those of earlier groups first."""
    yield from dict.fromkeys(task for group in groups for task in group)
