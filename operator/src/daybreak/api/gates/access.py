"""Access to a workload behind a gateway."""

from typing import Annotated

from pydantic import Field

from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import KeySelector
from daybreak.api.schema.scalars import DNS_LABEL

ORIGIN = r"^(\*|https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?)$"
FIELD_NAME = "^[A-Za-z_][A-Za-z0-9_]{0,62}$"


EXPIRES = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})$"


class KeyLimits(ApiModel):
    """Limits of an API key. Each gateway pod applies them separately."""

    requests_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Maximum number of requests per minute, including rejected ones. Defaults to no limit."""
    max_in_flight: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Maximum number of concurrent requests, including held ones. Defaults to no limit."""
    max_held: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Maximum number of held requests per model while the model sleeps or wakes. Defaults to a fair share of
    `hold.maxRequests` if the service has several keys."""


class ApiKey(ApiModel):
    """API key in a Secret of the service's namespace."""

    name: Annotated[str, Field(max_length=63, pattern=f"^{DNS_LABEL}$")] | None = None
    """Name of the key, which models receive in the header `x-daybreak-key-name`. Defaults to `SECRET/KEY`:
    the name of the Secret and the key inside it."""
    secret_ref: KeySelector
    """Key of the Secret that contains the API key. The Secret is mounted into the gateway; the operator never
    reads it."""
    expires: (
        Annotated[str, Field(pattern=EXPIRES, max_length=25, json_schema_extra={"format": "date-time"})]
        | None
    ) = None
    """Expiry time of the key, such as `2027-01-31T00:00:00Z`. From then on, the gateway rejects the key. If
    unset, the key never expires."""
    models: Annotated[list[Annotated[str, Field(min_length=1, max_length=253)]], Field(max_length=64)] = (
        Field(default_factory=list)
    )
    """Names of models and adapters that the key may use. If empty, the key may use all of the service. A key
    with names requires JSON requests with the model in the first 28 KiB of the body."""
    limits: KeyLimits | None = None
    """Limits of requests with the key. If unset, only the limits of the service apply."""


class Access(ApiModel):
    """Access to the service."""

    rules = (
        Rule(
            "!has(self.apiKeys) || self.apiKeys.all(k, !has(k.name) || "
            "self.apiKeys.exists_one(o, has(o.name) && o.name == k.name))",
            "names of API keys must be unique",
            lambda self: (
                len({key.name for key in self.api_keys if key.name})
                == sum(key.name is not None for key in self.api_keys)
            ),
        ),
    )

    api_keys: Annotated[list[ApiKey], Field(max_length=32)] = Field(default_factory=list)
    """API keys of the service, sent as `Authorization: Bearer KEY` or `x-api-key: KEY`. Each of them gives
    access. If empty, the service is open to every client that can reach its address."""
    cors_origins: Annotated[
        list[Annotated[str, Field(pattern=ORIGIN, max_length=253)]], Field(max_length=32)
    ] = Field(default_factory=list)
    """Origins, such as `https://chat.example.com`, from which pages may read the service's answers in a
    browser. `*` allows every origin. If empty, no page may read them."""
    extra_fields: Annotated[
        list[Annotated[str, Field(pattern=FIELD_NAME, max_length=63)]], Field(max_length=32)
    ] = Field(default_factory=list)
    """Fields of request bodies that Daybreak rejects by default as dangerous, and that the gateway forwards
    for this service, on every path. Examples are `priority`, `vllm_xargs`, `kv_transfer_params` and
    `chat_template`. Every client of the service may then set these fields. Other fields are always
    forwarded."""
