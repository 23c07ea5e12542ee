"""Sources of a model's weights, and their settings for worker pods and Ray Serve LLM.

Only worker pods read weights. The head imports the configuration and routes, but reads no file of the model,
so it needs no volumes and tokens.
"""

from dataclasses import dataclass, field
from typing import Any

from daybreak.api.common import volume_names
from daybreak.api.common.source import ModelSource, Scheme
from daybreak.api.ray.model import Model
from daybreak.ray.inputs.job_inputs import secret_variable

_COPIES = f"{volume_names.CACHE_DIRECTORY}/buckets"
"""Directory with a separate subdirectory for each bucket's weights."""
_COPY = "ray.llm._internal.common.callbacks.cloud_downloader.CloudDownloader"
"""Class that copies a bucket; Ray's documentation names it by this path."""
_READ_IN_PLACE = ("runai_streamer", "runai_streamer_sharded", "tensorizer")
"""Load formats with which vLLM reads the bucket directly, without a copy."""


@dataclass(frozen=True)
class Weights:
    """A model's weights, in the forms that Ray Serve LLM and Kubernetes require."""

    model_source: str | dict[str, str]
    """`model_source` of Ray Serve LLM: a Hugging Face repository, a path, or a bucket to copy from."""
    engine_args: dict[str, Any] = field(default_factory=dict)
    """Arguments for vLLM that follow from the source."""
    callback: dict[str, Any] | None = None
    """`callback_config` of Ray Serve LLM: steps of a replica before it loads the weights."""
    volume: dict[str, Any] | None = None
    """Pod volume with the weights, if there is one."""
    mount: dict[str, Any] | None = None
    """Mount of the volume in the worker containers."""


def weights(service: str, model: Model, pull_policy: str) -> Weights:
    """Return the weights of a service's model; `pull_policy` applies to weights in an image."""
    if model.cache is not None:
        claim = {"claimName": model.cache.claim(service, model.name), "readOnly": True}
        directory = volume_names.cached_weights(model.source, model.revision)
        return _mounted(model, directory, {"persistentVolumeClaim": claim})
    source = ModelSource.parse(model.source)
    match source.scheme:
        case Scheme.HUGGING_FACE:
            # vLLM uses the same revision for the tokenizer by default.
            pinned = {} if model.revision is None else {"revision": model.revision}
            return Weights(source.reference, engine_args=pinned)
        case Scheme.S3 | Scheme.GCS:
            if model.engine.args.get("load_format") in _READ_IN_PLACE:
                return Weights({"bucket_uri": source.reference})
            return _copied(source.reference)
        case Scheme.FILE:
            return Weights(source.path)
        case Scheme.CLAIM:
            claim = {"claimName": source.reference, "readOnly": True}
            return _mounted(model, source.path, {"persistentVolumeClaim": claim})
        case Scheme.IMAGE:
            image = {"reference": source.reference, "pullPolicy": pull_policy}
            return _mounted(model, source.path, {"image": image})
        case Scheme.OLLAMA | Scheme.MLFLOW:
            raise ValueError(f"{model.source} names a model of a registry, which has no weights for Ray")


def _copied(bucket: str) -> Weights:
    """Return weights that each worker pod copies, into a directory that is unique to this address.

    Ray's own copy of a `bucket_uri` is named after the model. After a change of the address, leftover files
    of the previous address would replace files that are missing at the current one. For an empty address, Ray
    would request the model's name from the Hugging Face Hub.
    """
    directory = f"{_COPIES}/{volume_names.bucket_copy(bucket)}"
    return Weights(
        model_source=directory,
        callback={"callback_class": _COPY, "callback_kwargs": {"paths": [[bucket, directory]]}},
    )


def _mounted(model: Model, path: str, volume: dict[str, Any]) -> Weights:
    root = volume_names.model_directory(model.name)
    return Weights(
        model_source=f"{root}/{path}" if path else root,
        volume={"name": volume_names.WEIGHTS_VOLUME, **volume},
        mount={"name": volume_names.WEIGHTS_VOLUME, "mountPath": root, "readOnly": True},
    )


def environment(model: Model) -> list[dict[str, Any]]:
    """Return the variables for access to the weights.

    The Job of a model with a cache uses them; otherwise the worker pods do. A token stays a reference, which
    the kubelet reads.
    """
    if model.token is None:
        return []
    return [secret_variable("HF_TOKEN", model.token)]
