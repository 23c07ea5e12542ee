"""LoRA adapters of a model: each is a model name of its own, served by the base model's replicas."""

from typing import Annotated, Literal

from pydantic import Field

from daybreak.api.common.source import OF_THE_HUB, Source
from daybreak.api.schema.base import ApiModel
from daybreak.api.schema.kubernetes_types import SecretKeySource, list_by
from daybreak.api.schema.scalar_types import ModelName

MAX_ADAPTERS = 64
"""Most adapters of one model."""


class Adapter(ApiModel):
    """One adapter, in PEFT's form: a directory with adapter_config.json and adapter_model.safetensors."""

    rules = OF_THE_HUB

    name: ModelName
    """What clients send as `model`; no other model or adapter of the service may have it."""
    source: Source
    """Where it is, in the same forms as a model's `source`. A claim, an image or a token that no adapter of
    the model had before needs new pods; anything else is changed while the replicas serve."""
    revision: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    """Commit, tag or branch of an hf:// adapter; a commit pins it."""
    token: SecretKeySource | None = None
    """Hugging Face token for it, from a Secret. Unset: the model's, if it has one."""


class Lora(ApiModel):
    """LoRA adapters of a model. A replica takes them up, and lets go of them, while it serves."""

    adapters: Annotated[list[Adapter], Field(max_length=MAX_ADAPTERS, json_schema_extra=list_by("name"))] = (
        Field(default_factory=list)
    )
    """The adapters. With none, the engine is ready to take some later without a restart."""
    max_loaded: Annotated[int, Field(ge=1, le=MAX_ADAPTERS)] = 4
    """Adapters that the accelerator holds at once, and that one batch can mix (vLLM's max_loras): room of
    `maxRank` is kept for each. The others wait in the worker's memory, as many as vLLM's max_cpu_loras says,
    which is 16, or `maxLoaded` if that is more, unless `engine.args` says another number. A change of it
    restarts the replicas."""
    max_rank: Literal[1, 8, 16, 32, 64, 128, 256, 320, 512] = 16
    """Highest rank of an adapter (vLLM's max_lora_rank); one with a higher rank is refused. A change of it
    restarts the replicas."""
