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
    """Return a manifest. Fields that are None are left out."""
    return {
        "apiVersion": "daybreak.dev/v1alpha1",
        "kind": "LLMBenchmark",
        "metadata": {"name": "tune", "namespace": "default", "uid": "u-1", "generation": 1},
        "spec": {name: value for name, value in (SPEC | spec).items() if value is not None},
    }


def benchmark(**spec: Any) -> LLMBenchmark:
    """Return a benchmark."""
    return LLMBenchmark.from_manifest(manifest(**spec))


def of_service(**reference: Any) -> dict[str, Any]:
    """Return the fields of a benchmark of a service."""
    return {"model": None, "serviceRef": {"name": "chat", **reference}}


def service(**model: Any) -> LLMService:
    """Return a service with two models; the fields belong to the first."""
    first = {"name": "big", "source": "hf://a/big", "engine": {"args": {"max_num_seqs": 64}}, **model}
    return LLMService.from_manifest(
        {
            "metadata": {"name": "chat", "namespace": "default", "uid": "s-1", "generation": 1},
            "spec": {"models": [first, {"name": "other", "source": "hf://a/other"}]},
        }
    )
