"""Matches of a route: requests that take other backends than the rest."""

from typing import Annotated

from pydantic import Field

from daybreak.api.llmroute.patterns import PATTERN
from daybreak.api.llmroute.references import ModelReference
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import list_by

MAX_WEIGHT = 1_000_000
"""Maximum weight, as in the Gateway API."""
MAX_MATCHES = 8
"""Maximum number of matches of a route."""
MAX_MATCH_BACKENDS = 4
"""Maximum number of models of one match."""
MAX_CRITERIA = 8
"""Maximum number of headers, keys, paths or users of one match."""
OWN_HEADERS = "x-daybreak-"
"""Prefix of header names that never come from a client."""

_Text = Annotated[str, Field(min_length=1, max_length=128)]


def not_our_own(where: str) -> Rule:
    """Return the rule that the field `where` must name a header that clients can send."""
    return Rule(
        f"!has(self.{where}) || !self.{where}.lowerAscii().startsWith('{OWN_HEADERS}')",
        f"headers that begin with {OWN_HEADERS} never come from a client",
        lambda self: not str(getattr(self, where)).lower().startswith(OWN_HEADERS),
    )


class RouteBackend(ModelReference):
    """Model that receives a share of the requests."""

    weight: Annotated[int, Field(ge=0, le=MAX_WEIGHT)] = 1
    """Share of the requests, relative to the weights of the other backends. At 0 the backend receives
    none."""


class HeaderMatch(ApiModel):
    """Condition on a header: one of `exact`, `prefix` and `regex`."""

    rules = (
        not_our_own("name"),
        Rule(
            "(has(self.exact) ? 1 : 0) + (has(self.prefix) ? 1 : 0) + (has(self.regex) ? 1 : 0) == 1",
            "one of exact, prefix and regex is needed",
            lambda self: [self.exact, self.prefix, self.regex].count(None) == 2,
        ),
    )

    name: Annotated[str, Field(min_length=1, max_length=64, pattern="^[A-Za-z0-9-]+$")]
    """Name of the header, case-insensitive."""
    exact: _Text | None = None
    """Complete value of the header."""
    prefix: _Text | None = None
    """Prefix of the value of the header."""
    regex: Annotated[str, Field(min_length=1, max_length=128, pattern=PATTERN)] | None = None
    """Regular expression for the complete value of the header. Values longer than 128 bytes do not match. It
    supports characters, classes (`[a-z]`, `\\d`, `\\w`, `\\s`), `.`, and at most three repetitions (`*`, `+`,
    `?`), each of one of these. Groups and alternatives are not supported."""


class RouteMatch(ApiModel):
    """Requests that take other backends.

    All specified criteria must match. Of `apiKeys`, `paths` and `users`, one entry must match.
    """

    rules = (
        Rule(
            "has(self.headers) || has(self.apiKeys) || has(self.paths) || has(self.users)",
            "one of headers, apiKeys, paths and users is needed: else the match would take all requests",
            lambda self: bool(self.headers or self.api_keys or self.paths or self.users),
        ),
        Rule(
            "!has(self.backends) || self.backends.exists(b, b.weight > 0)",
            "one of the backends of a match needs a weight above 0",
            lambda self: any(backend.weight > 0 for backend in self.backends),
        ),
    )

    headers: Annotated[list[HeaderMatch], Field(min_length=1, max_length=MAX_CRITERIA)] | None = None
    """Headers of the request. All of them must match."""
    api_keys: Annotated[list[_Text], Field(min_length=1, max_length=MAX_CRITERIA)] | None = None
    """Names of API keys (`access.apiKeys[].name`) of the services that the match leads to. The request must
    use one of these keys."""
    paths: (
        Annotated[
            list[Annotated[str, Field(max_length=128, pattern="^/[A-Za-z0-9/_.-]*$")]],
            Field(min_length=1, max_length=MAX_CRITERIA),
        ]
        | None
    ) = None
    """Paths, such as `/v1/embeddings`. The request must have one of these paths."""
    users: Annotated[list[_Text], Field(min_length=1, max_length=MAX_CRITERIA)] | None = None
    """Values of the field `user` of the JSON body. The request must contain one of these values, which
    clients choose freely."""
    backends: Annotated[
        list[RouteBackend],
        Field(min_length=1, max_length=MAX_MATCH_BACKENDS, json_schema_extra=list_by("service", "model")),
    ]
    """Models that share the matching requests."""
