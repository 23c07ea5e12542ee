"""LoRA adapters: what the engine is told at its start, and what replicas are told while they serve.

Which adapters there are stands in the deployment's `user_config`, which Serve hands to replicas that run. So
only what makes room for them (engine arguments) and what only a pod can bring (volumes, tokens) needs new
replicas or pods.
"""

import hashlib
import json
from typing import Any

from daybreak.api import names
from daybreak.api.lora import Adapter
from daybreak.api.source import ModelSource, Scheme
from daybreak.api.spec import Model
from daybreak.builders.pods import Place

_IN_MEMORY = 16
"""Adapters that the worker keeps in its memory, beside those on the accelerator."""


def engine_args(model: Model) -> dict[str, Any]:
    """Arguments for vLLM; those of `engine.args` go before them."""
    if model.lora is None:
        return {}
    return {
        "enable_lora": True,
        "max_loras": model.lora.max_loaded,
        "max_cpu_loras": model.engine.args.get("max_cpu_loras") or max(_IN_MEMORY, model.lora.max_loaded),
        "max_lora_rank": model.lora.max_rank,
    }


def user_config(model: Model) -> dict[str, Any]:
    """`user_config` of the model's deployment, as part of its options; empty for a model without LoRA."""
    if model.lora is None:
        return {}
    adapters = [{"name": adapter.name, "id": identity(adapter), **_origin(adapter)} for adapter in model.lora.adapters]
    return {"user_config": {"lora": {"adapters": adapters}}}


def identity(adapter: Adapter) -> str:
    """Digest of everything about an adapter but its name: replicas tell it back with how the adapter is."""
    return hashlib.sha256(json.dumps(_origin(adapter), sort_keys=True).encode()).hexdigest()[:12]


def places(model: Model, pull_policy: str) -> list[Place]:
    """Volumes with adapters, each claim and image once."""
    found: dict[str, Place] = {}
    for adapter in model.lora.adapters if model.lora is not None else ():
        source = ModelSource.parse(adapter.source)
        match source.scheme:
            case Scheme.CLAIM:
                volume = {"persistentVolumeClaim": {"claimName": source.reference, "readOnly": True}}
            case Scheme.IMAGE:
                volume = {"image": {"reference": source.reference, "pullPolicy": pull_policy}}
            case _:
                continue
        root, name = _root(source), names.adapter_volume(_volume(source))
        mount = {"name": name, "mountPath": root, "readOnly": True}
        found.setdefault(root, Place({"name": name, **volume}, mount))
    return list(found.values())


def environment(model: Model) -> list[dict[str, Any]]:
    """Variables with the adapters' tokens. A token stays a reference, read by the kubelet."""
    found: dict[str, dict[str, Any]] = {}
    for adapter in model.lora.adapters if model.lora is not None else ():
        if adapter.token is not None:
            reference = adapter.token.secret_key_ref.model_dump(by_alias=True, exclude_none=True)
            name = _token(adapter)
            found[name] = {"name": name, "valueFrom": {"secretKeyRef": reference}}
    return list(found.values())


def _origin(adapter: Adapter) -> dict[str, Any]:
    """Where an adapter comes from, as daybreak_runtime.lora reads it."""
    source = ModelSource.parse(adapter.source)
    match source.scheme:
        case Scheme.HUGGING_FACE:
            origin = {"repository": source.reference}
            if adapter.revision is not None:
                origin["revision"] = adapter.revision
            if adapter.token is not None:
                origin["token"] = _token(adapter)
            return origin
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


def _path(source: ModelSource) -> str:
    return f"{_root(source)}/{source.path}" if source.path else _root(source)


def _root(source: ModelSource) -> str:
    return names.adapter_directory(_volume(source))


def _volume(source: ModelSource) -> str:
    return f"{source.scheme}://{source.reference}"


def _token(adapter: Adapter) -> str:
    reference = adapter.token.secret_key_ref if adapter.token is not None else None
    return names.adapter_token(reference.name, reference.key) if reference is not None else ""
