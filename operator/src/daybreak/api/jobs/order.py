"""Size limit of the order that a job receives."""

from collections.abc import Iterator

from pydantic import BaseModel

ORDER_LIMIT = 100_000
"""Maximum length in characters of a spec without its `runtime`. The job receives it in one environment
variable of a pod."""


def too_long(spec: BaseModel) -> Iterator[str]:
    """Yield the problem of a spec that is too long for a job to receive."""
    written = len(spec.model_dump_json(exclude={"runtime"}, exclude_defaults=True))
    if written > ORDER_LIMIT:
        yield f"spec: {written} characters exceed the limit of {ORDER_LIMIT} for a job"
