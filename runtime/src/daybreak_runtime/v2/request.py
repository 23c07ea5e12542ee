"""A request as a model may see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Request:
    """What came beside the tensors. A hook with a parameter of this type is given it.

    Attributes:
        id: As the client named it, or "".
        parameters: Of the whole request.
        headers: Of HTTP, names in lower case; empty when it came by a handle.
    """

    id: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
