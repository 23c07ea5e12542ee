"""Names of volumes and caches in pods, and the directories where they appear."""

import hashlib
import re

from daybreak.api.common.names import worker_group

CODE_DIRECTORY = "/code"
"""Where the code of a ServeApplication appears in its pods, if it comes in a volume."""
CODE_VOLUME = "daybreak-code"
"""Name of that volume."""
ROWS_DIRECTORY = "/rows"
"""Below it, volumes with a batch's input and output appear in its head pod."""
LENGTHS_VOLUME = "daybreak-lengths"
"""Name of the volume with a ConfigMap that holds recorded lengths, in the pod of an LLMBenchmark."""
LENGTHS_DIRECTORY = "/lengths"
"""Where it appears."""
VOLUME_PREFIX = "daybreak-"
"""With it begin the names of the pod volumes that Daybreak makes."""
API_TOKEN_VOLUME = "kube-api-access"  # noqa: S105 -- a volume's name
"""Pod volume with the ServiceAccount's token, for one container of the pod."""
RESERVED_VOLUMES = ("ray-logs", API_TOKEN_VOLUME)
"""Pod volumes that bear other names, since KubeRay and Kubernetes know them by these."""
WEIGHTS_VOLUME = f"{VOLUME_PREFIX}model"
"""A worker pod's volume with the model's weights, where they come in one."""
CACHE_VOLUME = f"{VOLUME_PREFIX}cache"
"""A worker pod's volume with downloaded weights and compiled kernels."""
CACHE_DIRECTORY = "/var/cache/daybreak"
"""Where that volume appears."""
CLAIM_DIRECTORY = "/claim"
"""Where the Job that fills a claim has it."""
SHARED_MEMORY_VOLUME = f"{VOLUME_PREFIX}shm"
"""A Ray pod's /dev/shm."""
LOG_VOLUME = "ray-logs"
"""A Ray pod's session directory. KubeRay's own name for it: the head's autoscaler container then writes its
logs into the same volume."""
SHARED_VOLUMES = (SHARED_MEMORY_VOLUME, LOG_VOLUME)
"""Volumes of every Ray pod that other containers of the pod may mount."""
MODELS_DIRECTORY = "/models"
"""Below it, volumes with weights appear in worker pods."""
ADAPTERS_DIRECTORY = "/adapters"
"""Below it, volumes with LoRA adapters appear in worker pods."""
_CLAIM_STEM_LIMIT = 63 - len("-weights")
_BUCKET_COPY_LIMIT = 200
"""Most characters of an address in a directory's name; file systems take names of 255."""


def model_directory(model: str) -> str:
    """Where a model's weights appear in its worker pods, if they come in a volume."""
    return f"{MODELS_DIRECTORY}/{worker_group(model)}"


def cached_weights(source: str, revision: str | None) -> str:
    """Name of the directory with the weights of a source in a claim; another one for every revision."""
    return bucket_copy(f"{source}@{revision}" if revision else source)


def cache_claim(service: str, model: str) -> str:
    """Name of the claim that Daybreak makes for the weights of a model.

    At most 63 characters: provisioners make labels and host names of it. A longer one ends in a digest.
    """
    name = f"{service}-{worker_group(model)}"
    if len(name) <= _CLAIM_STEM_LIMIT:
        return f"{name}-weights"
    return f"{name[: _CLAIM_STEM_LIMIT - 11].rstrip('-')}-{_digest(name)}-weights"


def cache_job(service: str, digest: str) -> str:
    """Name of a Job that fills a cache. A Job cannot be changed, so that one with other content has another
    name: `digest`, of at most 10 characters.

    At most 63 characters, as many as the label has that Kubernetes makes of it.
    """
    return f"{service}-fill-{digest}"


def compile_cache(service: str, model: str) -> str:
    """Path of a model's directory in a claim for what engines compile."""
    return f"{service}/{worker_group(model)}"


def adapter_volume(source: str) -> str:
    """Name of the volume with adapters from a claim or an image: one for all that come from there."""
    return f"{VOLUME_PREFIX}adapters-{_digest(source)}"


def adapter_directory(source: str) -> str:
    """Where that volume appears in worker pods."""
    return f"{ADAPTERS_DIRECTORY}/{_digest(source)}"


def adapter_token(secret: str, key: str) -> str:
    """Variable with the token in a key of a Secret: one for all adapters that have the same."""
    return f"DAYBREAK_ADAPTER_TOKEN_{_digest(f'{secret}/{key}').upper()}"


def bucket_copy(uri: str) -> str:
    """Name of the directory with the copy of a bucket's weights: readable, since errors tell it, and another
    one for every address.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", uri)
    digest = hashlib.sha256(uri.encode()).hexdigest()[:8]
    return f"{plain[:_BUCKET_COPY_LIMIT]}-{digest}"


def rows_volume(claim: str) -> str:
    """Name of the volume with a claim that holds rows."""
    return f"{VOLUME_PREFIX}rows-{_digest(claim)}"


def rows_directory(claim: str) -> str:
    """Where that volume appears in the head pod."""
    return f"{ROWS_DIRECTORY}/{_digest(claim)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]
