"""The few Kubernetes types that a person writes inside an LLMService, by Kubernetes' own names."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue

from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.scalar_types import ObjectName
from daybreak.api.schema.scalars import DNS_LABEL


def list_by(*keys: str) -> dict[str, JsonValue]:
    """Schema of a list whose items are told apart by these fields, so that two managers can share it."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


class KeySelector(ApiModel):
    """A key of a Secret or ConfigMap in the service's own namespace."""

    name: ObjectName
    """Name of the object."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
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

    rules = (
        Rule(
            "[has(self.secretKeyRef), has(self.configMapKeyRef), has(self.fieldRef)].exists_one(set, set)",
            "valueFrom has exactly one of secretKeyRef, configMapKeyRef and fieldRef",
            lambda self: (
                sum(
                    part is not None
                    for part in (self.secret_key_ref, self.config_map_key_ref, self.field_ref)
                )
                == 1
            ),
        ),
    )

    secret_key_ref: KeySelector | None = None
    """A key of a Secret. Its value is read by the kubelet, never by Daybreak."""
    config_map_key_ref: KeySelector | None = None
    """A key of a ConfigMap."""
    field_ref: FieldSelector | None = None
    """A field of the pod."""


class EnvVar(ApiModel):
    """An environment variable of the Ray containers."""

    rules = (
        Rule(
            "!(has(self.value) && has(self.valueFrom))",
            "a variable has a value or a valueFrom, not both",
            lambda self: self.value is None or self.value_from is None,
        ),
    )

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$", max_length=253)]
    """Name of the variable."""
    value: Annotated[str, Field(max_length=32768)] | None = None
    """Its value."""
    value_from: EnvVarSource | None = None
    """Where its value comes from, instead of `value`."""


class Toleration(ApiModel):
    """A taint that the pods tolerate."""

    rules = (
        Rule(
            "!has(self.value) || self.value == '' || !has(self.operator) || self.operator != 'Exists'",
            "operator Exists takes no value: leave value out, or use operator Equal",
            lambda self: not self.value or self.operator != "Exists",
        ),
        Rule(
            "(has(self.key) && self.key != '') || (has(self.operator) && self.operator == 'Exists')",
            "a toleration without a key tolerates everything and needs operator Exists",
            lambda self: self.key or self.operator == "Exists",
        ),
        Rule(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "tolerationSeconds belongs to effect NoExecute",
            lambda self: self.toleration_seconds is None or self.effect == "NoExecute",
        ),
    )

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

    name: ObjectName
    """Its name."""


class NamedVolume(ApiModel):
    """A pod volume; everything beside its name is handed to Kubernetes as it is written."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})

    name: Annotated[str, Field(pattern=rf"^{DNS_LABEL}$", max_length=63)]
    """Name of the volume."""


class VolumeMount(ApiModel):
    """Where a volume appears in the Ray containers."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the volume."""
    mount_path: Annotated[str, Field(min_length=2, max_length=1024, pattern=r"^/[^:]+$")]
    """Absolute path in the container."""
    sub_path: Annotated[str, Field(max_length=1024, pattern=r"^[^/]")] | None = None
    """Path inside the volume, relative to its root."""
    read_only: bool | None = None
    """Whether the volume is mounted read-only."""
