"""What a workload behind a gateway speaks."""

from enum import StrEnum


class Protocol(StrEnum):
    """What it speaks, which says what the gateway lets through."""

    ANY = "Any"
    """Any method, path and body."""
    V2 = "V2"
    """The Open Inference Protocol: the same below `/v2`."""
    OPENAI = "OpenAI"
    """OpenAI's API: its paths, and the names of models."""
