"""Permanent failure of a job, which the operator reports as a condition."""


class JobProblem(Exception):
    """Failure that a retry does not fix: the user must change something.

    Attributes:
        reason: Reason for the object's conditions.
        message: Sentence for display.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
