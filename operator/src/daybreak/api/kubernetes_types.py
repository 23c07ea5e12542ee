"""The few Kubernetes types that a person writes inside an LLMService, by Kubernetes' own names."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

RawObject = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]
"""An object that is handed to Kubernetes as it is written."""


class ApiModel(BaseModel):
    """Base of every type of the API: immutable, camelCase on the wire, unknown fields refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class KeySelector(ApiModel):
    """A key of a Secret or ConfigMap in the service's own namespace."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the object."""
    key: Annotated[str, Field(min_length=1, max_length=253)]
    """Key inside it."""
    optional: bool | None = None
    """Whether a missing object or key is no error."""


class FieldSelector(ApiModel):
    """A field of the pod."""

    api_version: Annotated[str, Field(max_length=63)] | None = None
    """Version of the field's schema."""
    field_path: Annotated[str, Field(min_length=1, max_length=253)]
    """Path of the field, such as `status.podIP`."""


class EnvVarSource(ApiModel):
    """Where a variable's value comes from."""

    secret_key_ref: KeySelector | None = None
    """A key of a Secret. Its value is read by the kubelet, never by Daybreak."""
    config_map_key_ref: KeySelector | None = None
    """A key of a ConfigMap."""
    field_ref: FieldSelector | None = None
    """A field of the pod."""


class EnvVar(ApiModel):
    """An environment variable of the Ray containers."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=253)]
    """Name of the variable."""
    value: Annotated[str, Field(max_length=32768)] | None = None
    """Its value."""
    value_from: EnvVarSource | None = None
    """Where its value comes from, instead of `value`."""


class Toleration(ApiModel):
    """A taint that the pods tolerate."""

    key: Annotated[str, Field(max_length=316)] | None = None
    """Key of the taint; empty means every key, with operator `Exists`."""
    operator: Literal["Exists", "Equal"] | None = None
    """How the key relates to the value; `Equal` when unset."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; every effect when unset."""
    toleration_seconds: Annotated[int, Field(ge=0)] | None = None
    """How long a `NoExecute` taint is tolerated, in seconds."""


class SecretKeySource(ApiModel):
    """A value that lives in a Secret."""

    secret_key_ref: KeySelector
    """The Secret's key. Its value is read by the kubelet, never by Daybreak."""


class LocalObjectReference(ApiModel):
    """An object in the service's own namespace."""

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Its name."""


class NamedVolume(ApiModel):
    """A pod volume; everything beside its name is handed to Kubernetes as it is written."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})

    name: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
    """Name of the volume."""


class VolumeMount(ApiModel):
    """Where a volume appears in the Ray containers."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the volume."""
    mount_path: Annotated[str, Field(min_length=1, max_length=4096)]
    """Path in the container."""
    sub_path: Annotated[str, Field(max_length=4096)] | None = None
    """Path inside the volume."""
    read_only: bool | None = None
    """Whether the volume is mounted read-only."""
