"""What a request can be refused with."""


class Problem(Exception):
    """An answer other than 200.

    Args:
        message: What is wrong, for who asked.
        status: Of HTTP.
    """

    def __init__(self, message: str, status: int = 500) -> None:
        super().__init__(message)
        self.message = message
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        # Through Serve's handles it arrives as what it was.
        return type(self), (self.message, self.status)


class BadInput(Problem):
    """400: the request is wrong, and would be however often it is sent. A model may raise it too."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message, status)


class NotFound(Problem):
    """404: no such path, model or version."""

    def __init__(self, message: str, status: int = 404) -> None:
        super().__init__(message, status)
