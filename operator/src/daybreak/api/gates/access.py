"""Who may use a workload behind a gateway."""

from typing import Annotated

from pydantic import Field

from daybreak.api.common.base import ApiModel
from daybreak.api.common.kubernetes_types import KeySelector


class ApiKey(ApiModel):
    """An API key, in a Secret of the service's namespace."""

    secret_ref: KeySelector
    """The Secret's key. It is mounted into the gateway; the operator never reads it."""


class Access(ApiModel):
    """Who may use the service."""

    api_keys: Annotated[list[ApiKey], Field(max_length=32)] = Field(default_factory=list)
    """Keys, each of which opens the service, sent as `Authorization: Bearer KEY`. None: it is open to
    everybody who can reach its address."""
