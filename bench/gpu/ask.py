"""Requests of the check itself: one at a time, with JSON in and out."""

import http.client
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

_SECONDS = 120.0


@dataclass(frozen=True)
class Answer:
    """Answer to a request."""

    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        """Return the answer as JSON, or None if it is not JSON."""
        try:
            return json.loads(self.text)
        except ValueError:
            return None


def ask(
    address: tuple[str, int], method: str, path: str, body: Any = None, seconds: float = _SECONDS
) -> Answer | None:
    """Send one request, and return the answer, or None if no server responds."""
    headers = {"Content-Type": "application/json"}
    with closing(http.client.HTTPConnection(*address, timeout=seconds)) as connection:
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        except (OSError, http.client.HTTPException):
            return None
        return Answer(answer.status, text, {key.lower(): value for key, value in answer.getheaders()})
