"""Errors of requests."""


class Problem(Exception):
    """Response with a status other than 200.

    Args:
        message: Description of the error, for the client.
        status: HTTP status.
    """

    def __init__(self, message: str, status: int = 500) -> None:
        super().__init__(message)
        self.message = message
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        # Serve's handles pickle it, and it arrives with its own class.
        return type(self), (self.message, self.status)


class BadInput(Problem):
    """Status 400: the request is wrong, and a retry does not help. A model may raise it too."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message, status)


class NotFound(Problem):
    """Status 404: no such path, model or version."""

    def __init__(self, message: str, status: int = 404) -> None:
        super().__init__(message, status)
