"""Source of a LoRA adapter, in the format of daybreak_runtime.lora, which fetches the adapter."""

import hashlib
import json
from typing import Any

from daybreak.api.common import volume_names
from daybreak.api.common.source import ModelSource, Scheme
from daybreak.api.ray.lora import Adapter

IN_PODS = (Scheme.FILE, Scheme.CLAIM, Scheme.IMAGE)
"""Schemes of adapters that pods have as files; adapters of other schemes are fetched."""


def origin(adapter: Adapter) -> dict[str, Any]:
    """Return the adapter's entry in `user_config`, without its name."""
    source = ModelSource.parse(adapter.source)
    match source.scheme:
        case Scheme.HUGGING_FACE:
            found = {"repository": source.reference}
            if adapter.revision is not None:
                found["revision"] = adapter.revision
            if (variable := token(adapter)) is not None:
                found["token"] = variable
            return found
        case Scheme.S3 | Scheme.GCS:
            return {"bucket": source.reference}
        case Scheme.FILE:
            return {"path": source.path}
        case Scheme.CLAIM:
            # Files of a PVC may be changed or removed, and the engine reads an adapter again when needed.
            # Missing files would then end the engine.
            return {"path": _path(source), "copy": True}
        case Scheme.IMAGE:
            return {"path": _path(source)}
        case Scheme.OLLAMA | Scheme.MLFLOW:
            raise ValueError(f"{adapter.source} names a model of a registry, which has no adapters")


def identity(adapter: Adapter) -> str:
    """Return the digest of an adapter without its name; replicas report it with the adapter's state."""
    return hashlib.sha256(json.dumps(origin(adapter), sort_keys=True).encode()).hexdigest()[:12]


def volume(source: ModelSource) -> str:
    """Return an identifier of the PVC or image that contains a source."""
    return f"{source.scheme}://{source.reference}"


def token(adapter: Adapter) -> str | None:
    """Return the variable of the worker pods with the adapter's own token, or None if it has none."""
    if adapter.token is None:
        return None
    reference = adapter.token.secret_key_ref
    return volume_names.adapter_token(reference.name, reference.key)


def _path(source: ModelSource) -> str:
    root = volume_names.adapter_directory(volume(source))
    return f"{root}/{source.path}" if source.path else root
