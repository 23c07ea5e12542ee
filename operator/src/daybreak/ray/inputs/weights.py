"""Where a model's weights come from: what its worker pods and Ray Serve LLM are told of it.

Only worker pods touch the weights. The head imports the configuration and routes, but reads no file of
the model, so volumes and tokens stay off it.
"""

from dataclasses import dataclass, field
from typing import Any

from daybreak.api.common import volume_names
from daybreak.api.common.source import ModelSource, Scheme
from daybreak.api.ray.model import Model
from daybreak.ray.inputs.job_inputs import secret_variable

_COPIES = f"{volume_names.CACHE_DIRECTORY}/buckets"
"""Below it, each bucket's weights have a directory of their own."""
_COPY = "ray.llm._internal.common.callbacks.cloud_downloader.CloudDownloader"
"""What copies a bucket; Ray's documentation names it by this path."""
_READ_IN_PLACE = ("runai_streamer", "runai_streamer_sharded", "tensorizer")
"""Load formats with which vLLM reads the bucket itself; nothing is copied."""


@dataclass(frozen=True)
class Weights:
    """A model's weights as Ray Serve LLM and Kubernetes each want to hear of them."""

    model_source: str | dict[str, str]
    """`model_source` of Ray Serve LLM: a Hugging Face repository, a path, or a bucket to copy from."""
    engine_args: dict[str, Any] = field(default_factory=dict)
    """Arguments for vLLM that follow from the source."""
    callback: dict[str, Any] | None = None
    """`callback_config` of Ray Serve LLM: what a replica does before it looks for the weights."""
    volume: dict[str, Any] | None = None
    """The pod volume with the weights, if they come in one."""
    mount: dict[str, Any] | None = None
    """Where it appears in the worker containers."""


def weights(service: str, model: Model, pull_policy: str) -> Weights:
    """Weights of a service's model; `pull_policy` holds for weights that are an image, as for others."""
    if model.cache is not None:
        claim = {"claimName": model.cache.claim(service, model.name), "readOnly": True}
        directory = volume_names.cached_weights(model.source, model.revision)
        return _mounted(model, directory, {"persistentVolumeClaim": claim})
    source = ModelSource.parse(model.source)
    match source.scheme:
        case Scheme.HUGGING_FACE:
            # vLLM takes the tokenizer from the same revision unless it is told otherwise.
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


def _copied(bucket: str) -> Weights:
    """Weights that each worker pod copies, into a directory that only this address has.

    Ray's own copy of a `bucket_uri` is named after the model. Once the address changed, what an earlier one
    had left there would be loaded instead of what is missing from the present one; and from an address with
    nothing at all, Ray would ask the Hugging Face Hub for the model's name.
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
    """Variables with which whoever fetches the weights gets at them: the Job of a model with a cache, else
    its worker pods. A token stays a reference, read by the kubelet.
    """
    if model.token is None:
        return []
    return [secret_variable("HF_TOKEN", model.token)]
