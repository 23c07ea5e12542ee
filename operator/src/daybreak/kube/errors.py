"""What the API server says when it does not do what was asked."""

import orjson

_WRONG_TYPE = "failed to create typed patch object"


class ApiError(Exception):
    """A request that failed: `status` is the HTTP status, 0 when the API server could not be reached."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        """Kubernetes' own word, such as `AlreadyExists`; empty when there was none."""
        self.message = message
        self.retry_after = retry_after
        """Seconds that the API server asks to be left alone."""

    def __str__(self) -> str:
        return f"{self.status} {self.reason}: {self.message}" if self.status else self.message

    @property
    def not_found(self) -> bool:
        """There is no such object, or no such kind."""
        return self.status == 404

    @property
    def conflict(self) -> bool:
        """The object is not the one that was meant: another version of it, or another of its name."""
        return self.status == 409

    @property
    def exists(self) -> bool:
        """An object that should be made is there already."""
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def gone(self) -> bool:
        """The resourceVersion is too old: list again."""
        return self.status == 410

    @property
    def forbidden(self) -> bool:
        """The operator has no right to this."""
        return self.status == 403

    @property
    def refused(self) -> bool:
        """The request itself is wrong or not allowed: the same request will be refused again."""
        # A value of the wrong type in an apply is called an internal error.
        return self.status in (400, 403, 405, 413, 422) or (
            self.status == 500 and _WRONG_TYPE in self.message
        )


def from_response(status: int, body: bytes, retry_after: str | None) -> ApiError:
    """The error in a response; its body is a Kubernetes Status, or anything when a proxy answered."""
    try:
        said = orjson.loads(body)
        reason, message = str(said.get("reason") or ""), str(said.get("message") or "")
    except (ValueError, AttributeError):
        reason, message = "", body[:200].decode(errors="replace").strip()
    try:
        seconds = float(retry_after) if retry_after else 0.0
    except ValueError:
        seconds = 0.0
    # Several errors of one object come in any order, one a line: the same refusal shall read the same.
    first, *more = message.splitlines() or [f"HTTP {status}"]
    return ApiError(status, reason, " ".join([first, *sorted(line.strip() for line in more)]), seconds)


def unreachable(error: BaseException) -> ApiError:
    """The API server could not be reached, or did not answer in time."""
    return ApiError(0, "", f"the API server does not answer: {type(error).__name__} {error}".rstrip())
