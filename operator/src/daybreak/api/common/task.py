"""Tasks of models: the APIs by which an engine answers."""

from enum import StrEnum


class Task(StrEnum):
    """API of a model, by which the operator probes it."""

    COMPLETIONS = "Completions"
    """`/v1/completions`."""
    CHAT = "Chat"
    """`/v1/chat/completions`."""
    EMBEDDINGS = "Embeddings"
    """`/v1/embeddings`."""
    RERANK = "Rerank"
    """`/v1/rerank`, or `/rerank`."""
    SCORE = "Score"
    """`/v1/score`, or `/score`."""
    CLASSIFY = "Classify"
    """`/classify`."""
    TRANSCRIPTION = "Transcription"
    """`/v1/audio/transcriptions`."""
