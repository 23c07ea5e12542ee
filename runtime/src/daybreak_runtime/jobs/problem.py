"""Why a job cannot go on, in a form that the operator makes a condition of."""


class JobProblem(Exception):
    """Trying again would not help: somebody has to change something.

    Attributes:
        reason: One word, a reason of the object's conditions.
        message: A sentence for people.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
