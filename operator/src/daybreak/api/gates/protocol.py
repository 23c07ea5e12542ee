"""Protocols of workloads behind a gateway."""

from enum import StrEnum


class Protocol(StrEnum):
    """Protocol of a workload, which determines the requests that the gateway forwards."""

    ANY = "Any"
    """Any method, path and body."""
    V2 = "V2"
    """Open Inference Protocol: any method, path and body below `/v2`."""
    OPENAI = "OpenAI"
    """OpenAI API: its paths, and the names of models."""
