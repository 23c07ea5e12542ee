"""Which requests of a route take other backends than the rest."""

from typing import Annotated

from pydantic import Field

from daybreak.api.llmroute.patterns import PATTERN
from daybreak.api.llmroute.references import ModelReference
from daybreak.api.schema.base import ApiModel, Rule
from daybreak.api.schema.kubernetes_types import list_by

MAX_WEIGHT = 1_000_000
"""Largest weight, as in the Gateway API."""
MAX_MATCHES = 8
"""Most matches of a route."""
MAX_MATCH_BACKENDS = 4
"""Most models of one match."""
MAX_CRITERIA = 8
"""Most headers, keys, paths or users of one match."""
OWN_HEADERS = "x-daybreak-"
"""With it begin headers that never come from a client."""

_Text = Annotated[str, Field(min_length=1, max_length=128)]


def not_our_own(where: str) -> Rule:
    """A header's name, in a field of that name, is one that clients can send."""
    return Rule(
        f"!has(self.{where}) || !self.{where}.lowerAscii().startsWith('{OWN_HEADERS}')",
        f"headers that begin with {OWN_HEADERS} never come from a client",
        lambda self: not str(getattr(self, where)).lower().startswith(OWN_HEADERS),
    )


class RouteBackend(ModelReference):
    """A model that gets a share of the requests."""

    weight: Annotated[int, Field(ge=0, le=MAX_WEIGHT)] = 1
    """Its share of the requests, compared with the other backends. At 0 it gets none."""


class HeaderMatch(ApiModel):
    """What a header must be: one of `exact`, `prefix` and `regex`."""

    rules = (
        not_our_own("name"),
        Rule(
            "(has(self.exact) ? 1 : 0) + (has(self.prefix) ? 1 : 0) + (has(self.regex) ? 1 : 0) == 1",
            "one of exact, prefix and regex is needed",
            lambda self: [self.exact, self.prefix, self.regex].count(None) == 2,
        ),
    )

    name: Annotated[str, Field(min_length=1, max_length=64, pattern="^[A-Za-z0-9-]+$")]
    """The header. Capital and small letters are the same."""
    exact: _Text | None = None
    """Its whole value."""
    prefix: _Text | None = None
    """What its value begins with."""
    regex: Annotated[str, Field(min_length=1, max_length=128, pattern=PATTERN)] | None = None
    """An expression for its whole value, of at most 128 bytes: characters, classes (`[a-z]`, `\\d`, `\\w`,
    `\\s`), `.`, and up to three repetitions of one of them (`*`, `+`, `?`). No groups and no alternatives."""


class RouteMatch(ApiModel):
    """Requests that take other backends. All that is given must hold; of a list, one."""

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
    """Headers of the request; all must match."""
    api_keys: Annotated[list[_Text], Field(min_length=1, max_length=MAX_CRITERIA)] | None = None
    """Names of API keys (`access.apiKeys[].name`) of the services that the match leads to; one must be the
    request's."""
    paths: (
        Annotated[
            list[Annotated[str, Field(max_length=128, pattern="^/[A-Za-z0-9/_.-]*$")]],
            Field(min_length=1, max_length=MAX_CRITERIA),
        ]
        | None
    ) = None
    """Paths, such as `/v1/embeddings`; one must be the request's."""
    users: Annotated[list[_Text], Field(min_length=1, max_length=MAX_CRITERIA)] | None = None
    """Values of the field `user` of the JSON body; one must be the request's. It is what the client says."""
    backends: Annotated[
        list[RouteBackend],
        Field(min_length=1, max_length=MAX_MATCH_BACKENDS, json_schema_extra=list_by("service", "model")),
    ]
    """The models that share these requests."""
