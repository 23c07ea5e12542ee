"""Names of volumes and caches in pods, and their mount directories."""

import hashlib
import re

from daybreak.api.common.names import worker_group

CODE_DIRECTORY = "/code"
"""Directory with the code of a ServeApplication in its pods, if a volume has the code."""
CODE_VOLUME = "daybreak-code"
"""Name of the volume with the code of a ServeApplication."""
ROWS_DIRECTORY = "/rows"
"""Directory below which volumes with a batch's input and output are mounted in its head pod."""
LENGTHS_VOLUME = "daybreak-lengths"
"""Name of the volume with a ConfigMap of recorded lengths, in the pod of an LLMBenchmark."""
LENGTHS_DIRECTORY = "/lengths"
"""Mount directory of the volume with recorded lengths."""
VOLUME_PREFIX = "daybreak-"
"""Prefix of the names of pod volumes that Daybreak creates."""
API_TOKEN_VOLUME = "kube-api-access"  # noqa: S105 -- a volume's name
"""Name of the pod volume with the ServiceAccount's token, for one container of the pod."""
RESERVED_VOLUMES = ("ray-logs", API_TOKEN_VOLUME)
"""Names of pod volumes without the prefix, because KubeRay and Kubernetes use these names."""
WEIGHTS_VOLUME = f"{VOLUME_PREFIX}model"
"""Name of a worker pod's volume with the model's weights, if a volume has them."""
CACHE_VOLUME = f"{VOLUME_PREFIX}cache"
"""Name of a worker pod's volume with downloaded weights and compiled kernels."""
CACHE_DIRECTORY = "/var/cache/daybreak"
"""Mount directory of the cache volume."""
CLAIM_DIRECTORY = "/claim"
"""Mount directory of a PVC in the Job that fills it."""
SHARED_MEMORY_VOLUME = f"{VOLUME_PREFIX}shm"
"""Name of the volume for `/dev/shm` of a Ray pod."""
LOG_VOLUME = "ray-logs"
"""Name of the volume for a Ray pod's session directory. KubeRay uses the same name, so the head's autoscaler
container writes its logs into the same volume."""
SHARED_VOLUMES = (SHARED_MEMORY_VOLUME, LOG_VOLUME)
"""Volumes of every Ray pod that other containers of the pod may mount."""
MODELS_DIRECTORY = "/models"
"""Directory below which volumes with weights are mounted in worker pods."""
ADAPTERS_DIRECTORY = "/adapters"
"""Directory below which volumes with LoRA adapters are mounted in worker pods."""
_CLAIM_STEM_LIMIT = 63 - len("-weights")
_BUCKET_COPY_LIMIT = 200
"""Maximum number of characters of an address in a directory's name; file systems allow names of 255."""


def model_directory(model: str) -> str:
    """Return the directory of a model's weights in its worker pods, if a volume has them."""
    return f"{MODELS_DIRECTORY}/{worker_group(model)}"


def cached_weights(source: str, revision: str | None) -> str:
    """Return the name of the directory with a source's weights in a PVC.

    Every revision has another directory.
    """
    return bucket_copy(f"{source}@{revision}" if revision else source)


def cache_claim(service: str, model: str) -> str:
    """Return the name of the PVC that Daybreak creates for the weights of a model.

    The name has at most 63 characters, because provisioners use it in labels and host names. A longer name
    ends in a digest.
    """
    name = f"{service}-{worker_group(model)}"
    if len(name) <= _CLAIM_STEM_LIMIT:
        return f"{name}-weights"
    return f"{name[: _CLAIM_STEM_LIMIT - 11].rstrip('-')}-{_digest(name)}-weights"


def cache_job(service: str, digest: str) -> str:
    """Return the name of a Job that fills a cache.

    A Job cannot be changed, so a Job with other content has another name: `digest` has at most 10 characters.
    The name has at most 63 characters, the limit of the label that Kubernetes derives from it.
    """
    return f"{service}-fill-{digest}"


def compile_cache(service: str, model: str) -> str:
    """Return the path of a model's directory in a PVC for compiled files of engines."""
    return f"{service}/{worker_group(model)}"


def adapter_volume(source: str) -> str:
    """Return the name of the volume with all adapters from one PVC or image."""
    return f"{VOLUME_PREFIX}adapters-{_digest(source)}"


def adapter_directory(source: str) -> str:
    """Return the mount directory of the volume with adapters in worker pods."""
    return f"{ADAPTERS_DIRECTORY}/{_digest(source)}"


def adapter_token(secret: str, key: str) -> str:
    """Return the name of the environment variable with the token in a Secret's key.

    All adapters with the same key share the variable.
    """
    return f"DAYBREAK_ADAPTER_TOKEN_{_digest(f'{secret}/{key}').upper()}"


def bucket_copy(uri: str) -> str:
    """Return the name of the directory with the copy of a bucket's weights.

    The name is readable, because errors contain it, and different for every address.
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", uri)
    digest = hashlib.sha256(uri.encode()).hexdigest()[:8]
    return f"{plain[:_BUCKET_COPY_LIMIT]}-{digest}"


def rows_volume(claim: str) -> str:
    """Return the name of the volume for a PVC that contains rows."""
    return f"{VOLUME_PREFIX}rows-{_digest(claim)}"


def rows_directory(claim: str) -> str:
    """Return the mount directory, in the head pod, of a PVC that contains rows."""
    return f"{ROWS_DIRECTORY}/{_digest(claim)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:10]
