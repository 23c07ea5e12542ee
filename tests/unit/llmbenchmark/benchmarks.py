"""Benchmarks for the tests."""

from typing import Any

from daybreak.api.llmbenchmark.definition import LLMBenchmark
from daybreak.api.llmservice.definition import LLMService

MODEL: dict[str, Any] = {
    "name": "tiny",
    "source": "file:///models/tiny",
    "accelerator": {"kind": "cpu"},
    "engine": {"args": {"max_model_len": 1024}},
}
SPEC: dict[str, Any] = {
    "model": MODEL,
    "load": {"clients": [8]},
    "sweep": [{"argument": "max_num_seqs", "values": [1, 2, 4]}],
}


def manifest(**spec: Any) -> dict[str, Any]:
    """A manifest; None leaves a field out."""
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMBenchmark",
        "metadata": {"name": "tune", "namespace": "default", "uid": "u-1", "generation": 1},
        "spec": {name: value for name, value in (SPEC | spec).items() if value is not None},
    }


def benchmark(**spec: Any) -> LLMBenchmark:
    """A benchmark."""
    return LLMBenchmark.from_manifest(manifest(**spec))


def of_service(**reference: Any) -> dict[str, Any]:
    """What makes a benchmark one of a service."""
    return {"model": None, "serviceRef": {"name": "chat", **reference}}


def service(**model: Any) -> LLMService:
    """A service with two models; the fields are those of its first."""
    first = {"name": "big", "source": "hf://a/big", "engine": {"args": {"max_num_seqs": 64}}, **model}
    return LLMService.from_manifest(
        {
            "metadata": {"name": "chat", "namespace": "default", "uid": "s-1", "generation": 1},
            "spec": {"models": [first, {"name": "other", "source": "hf://a/other"}]},
        }
    )
