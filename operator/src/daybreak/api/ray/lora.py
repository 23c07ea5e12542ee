"""LoRA adapters of a model.

Each adapter has its own model name and is served by the base model's replicas.
"""

from typing import Annotated, Literal

from pydantic import Field

from daybreak.api.common.source import OF_THE_HUB, Source
from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.kubernetes_types import SecretKeySource, list_by
from daybreak.api.schema.scalar_types import ModelName

MAX_ADAPTERS = 64
"""Maximum number of adapters of one model."""


class Adapter(ApiModel):
    """LoRA adapter in PEFT format: a directory with `adapter_config.json` and `adapter_model.safetensors`."""

    rules = OF_THE_HUB

    name: ModelName
    """Name that clients send as `model`. It must be unique among the models and adapters of the service."""
    source: Source
    """Location of the adapter, in the same forms as a model's `source`. A PVC, an image or a token that no
    adapter of the model used before requires new pods. Other changes apply while the replicas serve."""
    revision: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Commit, tag or branch of an `hf://` adapter; a commit pins it."""
    token: SecretKeySource | None = None
    """Hugging Face token for the adapter, from a Secret. Defaults to the model's token, if it has one."""


class Lora(ApiModel):
    """LoRA adapters of a model. A replica loads and unloads them while it serves."""

    adapters: Annotated[list[Adapter], Field(max_length=MAX_ADAPTERS, json_schema_extra=list_by("name"))] = (
        Field(default_factory=list)
    )
    """List of adapters. If it is empty, the engine can load adapters later without a restart."""
    max_loaded: Annotated[int, Field(ge=1, le=MAX_ADAPTERS)] = 4
    """Maximum number of adapters on the accelerator at once, which one batch can mix (vLLM's `max_loras`).
    The engine reserves memory for rank `maxRank` for each. Others stay in the worker's CPU memory, up to
    vLLM's `max_cpu_loras`. That is 16, or `maxLoaded` if that is more, unless `engine.args` sets another
    number. A change restarts the replicas."""
    max_rank: Literal[1, 8, 16, 32, 64, 128, 256, 320, 512] = 16
    """Maximum rank of an adapter (vLLM's `max_lora_rank`); an adapter with a higher rank is rejected. A
    change restarts the replicas."""
