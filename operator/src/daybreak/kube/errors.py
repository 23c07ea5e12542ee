"""Errors of requests to the API server."""

import orjson

_WRONG_TYPE = "failed to create typed patch object"


class ApiError(Exception):
    """Failed request. `status` is the HTTP status, or 0 if the API server could not be reached."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        """Kubernetes' reason, such as `AlreadyExists`; empty if there is none."""
        self.message = message
        self.retry_after = retry_after
        """Delay in seconds that the API server requests before a retry."""

    def __str__(self) -> str:
        return f"{self.status} {self.reason}: {self.message}" if self.status else self.message

    @property
    def not_found(self) -> bool:
        """True if the object or its kind does not exist."""
        return self.status == 404

    @property
    def conflict(self) -> bool:
        """True if the object has another version, or is another object of the same name."""
        return self.status == 409

    @property
    def exists(self) -> bool:
        """True if an object to be created already exists."""
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def gone(self) -> bool:
        """True if the resourceVersion is too old and the objects must be listed again."""
        return self.status == 410

    @property
    def forbidden(self) -> bool:
        """True if the operator has no right to the request."""
        return self.status == 403

    @property
    def refused(self) -> bool:
        """True if the request itself is invalid or not allowed, so that a retry fails as well."""
        # The API server reports a value of the wrong type in an apply as an internal error.
        return self.status in (400, 403, 405, 413, 422) or (
            self.status == 500 and _WRONG_TYPE in self.message
        )


def from_response(status: int, body: bytes, retry_after: str | None) -> ApiError:
    """Return the error in a response. Its body is a Kubernetes Status, or arbitrary if a proxy responded."""
    try:
        report = orjson.loads(body)
        reason, message = str(report.get("reason") or ""), str(report.get("message") or "")
    except (ValueError, AttributeError):
        reason, message = "", body[:200].decode(errors="replace").strip()
    try:
        seconds = float(retry_after) if retry_after else 0.0
    except ValueError:
        seconds = 0.0
    # Several errors of one object arrive in any order, one per line: sort them, so that the message stays the
    # same.
    first, *more = message.splitlines() or [f"HTTP {status}"]
    return ApiError(status, reason, " ".join([first, *sorted(line.strip() for line in more)]), seconds)


def unreachable(error: BaseException) -> ApiError:
    """Return the error for an API server that could not be reached or did not respond in time."""
    return ApiError(0, "", f"the API server does not answer: {type(error).__name__} {error}".rstrip())
