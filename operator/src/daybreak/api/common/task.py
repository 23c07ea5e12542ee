"""Tasks of models: the APIs of an engine."""

from enum import StrEnum


class Task(StrEnum):
    """API of a model, with which the operator probes the model."""

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
