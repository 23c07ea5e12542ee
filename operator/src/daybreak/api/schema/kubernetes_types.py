"""Kubernetes types that users write inside a spec, with their Kubernetes names."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue

from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.scalar_types import ObjectName
from daybreak.api.schema.scalars import DNS_LABEL


def list_by(*keys: str) -> dict[str, JsonValue]:
    """Return the schema of a list with these fields as keys of its items.

    With keys, two managers can share the list.
    """
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


class KeySelector(ApiModel):
    """Key of a Secret or ConfigMap in the service's namespace."""

    name: ObjectName
    """Name of the Secret or ConfigMap."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
    """Key in the Secret or ConfigMap."""
    optional: bool | None = None
    """If true, the object or its key may be missing."""


class FieldSelector(ApiModel):
    """Field of the pod."""

    api_version: Annotated[str, Field(max_length=63)] | None = None
    """Version of the field's schema."""
    field_path: Annotated[str, Field(min_length=1, max_length=253)]
    """Path of the field, such as `status.podIP`."""


class EnvVarSource(ApiModel):
    """Source of the value of an environment variable."""

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
    """Key of a Secret. The kubelet reads the value; Daybreak never does."""
    config_map_key_ref: KeySelector | None = None
    """Key of a ConfigMap."""
    field_ref: FieldSelector | None = None
    """Field of the pod."""


class EnvVar(ApiModel):
    """Environment variable of the Ray containers."""

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
    """Value of the variable."""
    value_from: EnvVarSource | None = None
    """Source of the variable's value, instead of `value`."""


class Toleration(ApiModel):
    """Taint that the pods tolerate."""

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
    """Key of the taint. An empty key, with operator `Exists`, matches every key."""
    operator: Literal["Exists", "Equal"] | None = None
    """Relation of the key to the value. Defaults to `Equal`."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint. If unset, the toleration matches every effect."""
    toleration_seconds: Annotated[int, Field(ge=0)] | None = None
    """Time in seconds for which the pods tolerate a `NoExecute` taint."""


class SecretKeySource(ApiModel):
    """Value in a Secret."""

    secret_key_ref: KeySelector
    """Key of the Secret. The kubelet reads the value; Daybreak never does."""


class LocalObjectReference(ApiModel):
    """Reference to an object in the service's namespace."""

    name: ObjectName
    """Name of the object."""


class NamedVolume(ApiModel):
    """Pod volume. All fields except `name` are passed to Kubernetes as written."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})

    name: Annotated[str, Field(pattern=rf"^{DNS_LABEL}$", max_length=63)]
    """Name of the volume."""


class VolumeMount(ApiModel):
    """Mount of a volume in the Ray containers."""

    name: Annotated[str, Field(min_length=1, max_length=63)]
    """Name of the volume."""
    mount_path: Annotated[str, Field(min_length=2, max_length=1024, pattern=r"^/[^:]+$")]
    """Absolute path in the container."""
    sub_path: Annotated[str, Field(max_length=1024, pattern=r"^[^/]")] | None = None
    """Path inside the volume, relative to its root."""
    read_only: bool | None = None
    """If true, the volume is mounted read-only."""
