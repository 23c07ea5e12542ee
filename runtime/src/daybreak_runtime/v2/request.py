"""Request metadata for a model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    """Data of a request in addition to its tensors, for a hook with a parameter of this type.

    Attributes:
        id: Id from the client, or "".
        parameters: Parameters of the whole request.
        headers: HTTP headers, names in lower case; empty if the request came by a handle.
    """

    id: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
