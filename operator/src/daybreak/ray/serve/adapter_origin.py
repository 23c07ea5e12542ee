"""Where a LoRA adapter comes from, in the words of daybreak_runtime.lora, which fetches it."""

import hashlib
import json
from typing import Any

from daybreak.api.common import volume_names
from daybreak.api.common.source import ModelSource, Scheme
from daybreak.api.ray.lora import Adapter

IN_PODS = (Scheme.FILE, Scheme.CLAIM, Scheme.IMAGE)
"""Where adapters are that a pod sees as files; the others are fetched."""


def origin(adapter: Adapter) -> dict[str, Any]:
    """The adapter's entry in `user_config`, without its name."""
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
            # Its files may be changed or removed, and the engine reads an adapter again when it needs it:
            # one whose files are gone by then would end the engine.
            return {"path": _path(source), "copy": True}
        case Scheme.IMAGE:
            return {"path": _path(source)}


def identity(adapter: Adapter) -> str:
    """Digest of everything about an adapter but its name: replicas tell it back with how the adapter is."""
    return hashlib.sha256(json.dumps(origin(adapter), sort_keys=True).encode()).hexdigest()[:12]


def volume(source: ModelSource) -> str:
    """The claim or image that a source is in, in one word."""
    return f"{source.scheme}://{source.reference}"


def token(adapter: Adapter) -> str | None:
    """Variable of the worker pods with the adapter's own token; None when it has none."""
    if adapter.token is None:
        return None
    reference = adapter.token.secret_key_ref
    return volume_names.adapter_token(reference.name, reference.key)


def _path(source: ModelSource) -> str:
    root = volume_names.adapter_directory(volume(source))
    return f"{root}/{source.path}" if source.path else root
