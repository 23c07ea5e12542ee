"""Paths of the Open Inference Protocol V2, and their actions."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from daybreak_runtime.v2.problem import NotFound, Problem

_MODEL = r"/v2/models/(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?"
_PATHS = tuple(
    (method, re.compile(pattern), what)
    for method, pattern, what in (
        ("POST", _MODEL + "/infer", "infer"),
        ("POST", _MODEL + "/explain", "explain"),
        ("GET", _MODEL + "/ready", "ready"),
        ("GET", _MODEL, "metadata"),
        ("GET", "/v2/health/live", "live"),
        ("GET", "/v2/health/ready", "server_ready"),
        ("GET", "/v2/?", "server"),
        ("GET", "/v2/models", "list"),
        ("POST", "/v2/repository/index", "index"),
        ("POST", r"/v2/repository/models/(?P<model>[^/]+)/load", "load"),
        ("POST", r"/v2/repository/models/(?P<model>[^/]+)/unload", "unload"),
    )
)


@dataclass(frozen=True)
class Path:
    """Action of a request.

    Attributes:
        what: `infer`, `explain`, `metadata` ...
        model: Model name, or "".
        version: Version name, or None if the path names none.
    """

    what: str
    model: str = ""
    version: str | None = None


def find(method: str, path: str) -> Path:
    """Return the action of a request. Raises NotFound, or Problem with 405 for another method."""
    allowed = []
    for each, pattern, what in _PATHS:
        found = pattern.fullmatch(path)
        if not found:
            continue
        if method == each or (method == "HEAD" and each == "GET"):
            parts = found.groupdict()
            version = parts.get("version")
            return Path(
                what, unquote(parts.get("model") or ""), None if version is None else unquote(version)
            )
        allowed.append(each)
    if allowed:
        raise Problem(f"{path[:200]} takes {', '.join(allowed)}", 405)
    raise NotFound(f"there is no path {path[:200]}")
