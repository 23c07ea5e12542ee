"""Batches for tests."""

from datetime import UTC, datetime
from typing import Any

from daybreak.api.llmbatch.definition import LLMBatch
from daybreak.kinds.llmbatch.observe.observed import Observed
from daybreak.kinds.llmbatch.observe.observer import read

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MODEL = {"name": "tiny", "source": "file:///models/tiny", "accelerator": {"kind": "cpu"}}
SPEC = {
    "model": MODEL,
    "input": {"uri": "pvc://rows/in.jsonl"},
    "output": {"uri": "pvc://rows/out"},
    "prompt": "{{ q }}",
}


def manifest(
    *, status: dict[str, Any] | None = None, labels: dict[str, str] | None = None, **spec: Any
) -> Any:
    """Return an LLMBatch as the API server returns it. Fields of the spec that are None are left out."""
    metadata = {"name": "night", "namespace": "team", "uid": "u-1", "generation": 3, "labels": labels or {}}
    whole = {name: value for name, value in (SPEC | spec).items() if value is not None}
    return {"metadata": metadata, "spec": whole, "status": status or {}}


def batch(**spec: Any) -> LLMBatch:
    """Return a batch."""
    return LLMBatch.from_manifest(manifest(**spec))


def observe(whole: Any, **more: Any) -> Observed:
    """Return the observation of a batch."""
    found, problems = read(whole)
    return Observed(whole, found, problems, kuberay_installed=True, now=NOW, **more)
