"""A model behind somebody else's OpenAI API, outside of the cluster."""

from typing import Annotated

from pydantic import Field

from daybreak.api.common.https import HTTPS_URL, host_of, port_of
from daybreak.api.llmroute.words import COUNTED
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import KeySelector
from daybreak.api.schema.scalar_types import ModelName, PositiveDuration


class ExternalFallback(ApiModel):
    """A model behind an OpenAI API outside of the cluster, for requests that nobody else takes."""

    rules = (
        Rule(
            "!has(self.url) || !isURL(self.url) || url(self.url).getPort() == '' || "
            "(int(url(self.url).getPort()) > 0 && int(url(self.url).getPort()) < 65536)",
            "the port of the url must be one of 1 to 65535",
            lambda self: port_of(self.url) > 0,
        ),
    )

    url: Annotated[str, Field(max_length=253, pattern=HTTPS_URL)]
    """The base URL, such as `https://api.example.com/v1`. HTTPS only, and a host by its DNS name; the
    certificate must be valid for it."""
    model: ModelName
    """Requests come to it under this name."""
    api_key_secret_ref: KeySelector | None = None
    """The key of a Secret with the API key that it is asked with. It is mounted into the gateway; the
    operator never reads it. Unset: it is asked without one."""
    ca_secret_ref: KeySelector | None = None
    """The key of a Secret with the CA certificates (PEM) that its certificate is verified by. Unset: those of
    the gateway's image."""
    hold_timeout: PositiveDuration | None = None
    """For how long a request is held at most by the model before it until it comes here. Unset: until that
    one's hold ends."""

    @property
    def host(self) -> str:
        """Where it is."""
        return host_of(self.url)

    @property
    def counted_as(self) -> str:
        """What it is called where requests are counted."""
        return f"{COUNTED}{self.host}/{self.model}"


class ExternalStatus(ExternalFallback):
    """The external model as gateways use it, and what it has got."""

    requests: int = 0
    """Requests that it has got since `counts.since`."""
    errors: int = 0
    """Those of them that were answered 5xx, or for which it could not be reached."""
    observed_share: float = 0.0
    """What it has got as a part of 1, of the requests of all backends."""
    ttft_p95: float | None = None
    """Seconds within which 95 % of its answers began, to a fifth; absent: there are none."""
    latency_p99: float | None = None
    """Seconds within which 99 % of them ended, in the same way."""
