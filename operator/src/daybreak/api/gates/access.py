"""Who may use a workload behind a gateway."""

from typing import Annotated

from pydantic import Field

from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import KeySelector
from daybreak.api.schema.scalars import DNS_LABEL

ORIGIN = r"^(\*|https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?)$"
FIELD_NAME = "^[A-Za-z_][A-Za-z0-9_]{0,62}$"


EXPIRES = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})$"


class KeyLimits(ApiModel):
    """What may be done with a key, at each gateway pod by itself."""

    requests_per_minute: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Requests within a minute, those included that are refused. Unset: any number."""
    max_in_flight: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Requests at a time, those that are held included. Unset: any number."""
    max_held: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Requests of a model that are held at a time while it sleeps or wakes. Unset: its fair share of
    `hold.maxRequests` where the service has several keys."""


class ApiKey(ApiModel):
    """An API key, in a Secret of the service's namespace."""

    name: Annotated[str, Field(max_length=63, pattern=f"^{DNS_LABEL}$")] | None = None
    """Name of the key, which models receive in the header `x-daybreak-key-name`. Defaults to the names of the
    Secret and of the key inside it, `SECRET/KEY`."""
    secret_ref: KeySelector
    """The Secret's key. It is mounted into the gateway; the operator never reads it."""
    expires: (
        Annotated[str, Field(pattern=EXPIRES, max_length=25, json_schema_extra={"format": "date-time"})]
        | None
    ) = None
    """When the key opens nothing any more, such as `2027-01-31T00:00:00Z`. Unset: never."""
    models: Annotated[list[Annotated[str, Field(min_length=1, max_length=253)]], Field(max_length=64)] = (
        Field(default_factory=list)
    )
    """Names of models and adapters that the key may ask for. None: all of the service. A key with names asks
    with JSON only, and says the model in the first 28 KiB of a body."""
    limits: KeyLimits | None = None
    """How much may be asked with it. Unset: as much as the service takes."""


class Access(ApiModel):
    """Who may use the service."""

    rules = (
        Rule(
            "!has(self.apiKeys) || self.apiKeys.all(k, !has(k.name) || "
            "self.apiKeys.exists_one(o, has(o.name) && o.name == k.name))",
            "every API key that has a name needs one of its own",
            lambda self: (
                len({key.name for key in self.api_keys if key.name})
                == sum(key.name is not None for key in self.api_keys)
            ),
        ),
    )

    api_keys: Annotated[list[ApiKey], Field(max_length=32)] = Field(default_factory=list)
    """Keys, each of which opens the service, sent as `Authorization: Bearer KEY` or `x-api-key: KEY`. None:
    it is open to everybody who can reach its address."""
    cors_origins: Annotated[
        list[Annotated[str, Field(pattern=ORIGIN, max_length=253)]], Field(max_length=32)
    ] = Field(default_factory=list)
    """Origins, such as `https://chat.example.com`, whose pages may read the service's answers in a browser;
    `*`: those of every site. None: no page may."""
    extra_fields: Annotated[
        list[Annotated[str, Field(pattern=FIELD_NAME, max_length=63)]], Field(max_length=32)
    ] = Field(default_factory=list)
    """Fields of a request's body that pass to the engine though Daybreak rejects them as dangerous, on every
    path. Such as `priority`, `vllm_xargs`, `kv_transfer_params`, or `chat_template`. Every client of the
    service may then set them. Other fields always pass."""
