"""Model behind a third-party OpenAI API outside the cluster."""

from typing import Annotated

from pydantic import Field

from daybreak.api.common.https import HTTPS_URL, host_of, port_of
from daybreak.api.llmroute.words import COUNTED
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import KeySelector
from daybreak.api.schema.scalar_types import ModelName, PositiveDuration


class ExternalFallback(ApiModel):
    """Model behind an OpenAI API outside the cluster, for requests that no other model accepts."""

    rules = (
        Rule(
            "!has(self.url) || !isURL(self.url) || url(self.url).getPort() == '' || "
            "(int(url(self.url).getPort()) > 0 && int(url(self.url).getPort()) < 65536)",
            "the port of the url must be one of 1 to 65535",
            lambda self: port_of(self.url) > 0,
        ),
    )

    url: Annotated[str, Field(max_length=253, pattern=HTTPS_URL)]
    """Base URL, such as `https://api.example.com/v1`. It must use HTTPS and a DNS name as the host, and the
    certificate must be valid for that name."""
    model: ModelName
    """Name of the external model. Requests reach the API under this name."""
    api_key_secret_ref: KeySelector | None = None
    """Key of a Secret with the API key that the gateway sends to the external API. The Secret is mounted into
    the gateway; the operator never reads it. If unset, the gateway sends no API key."""
    ca_secret_ref: KeySelector | None = None
    """Key of a Secret with the CA certificates (PEM) that verify the certificate of the external API.
    Defaults to the CA certificates of the gateway's image."""
    hold_timeout: PositiveDuration | None = None
    """Maximum time that the previous model holds a request before the external model receives it. Defaults to
    that model's own hold timeout."""

    @property
    def host(self) -> str:
        """Return the host of the URL."""
        return host_of(self.url)

    @property
    def counted_as(self) -> str:
        """Return the name of the external model in request counts."""
        return f"{COUNTED}{self.host}/{self.model}"


class ExternalStatus(ExternalFallback):
    """External model as gateways use it, with its request counts."""

    requests: int = 0
    """Number of requests that the external model has received since `counts.startTime`."""
    errors: int = 0
    """Number of requests that ended with a 5xx response or could not reach the external model."""
    observed_share: float = 0.0
    """Observed fraction of the requests of all backends that the external model received, from 0 to 1."""
    ttft_p95: float | None = None
    """P95 time to the first byte in seconds, accurate to a fifth of the value. Absent if there are no
    responses."""
    latency_p99: float | None = None
    """P99 time to the end of the response in seconds, accurate to a fifth of the value. Absent if there are
    no responses."""
