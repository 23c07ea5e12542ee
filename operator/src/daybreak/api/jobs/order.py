"""How much a job can be told."""

from collections.abc import Iterator

from pydantic import BaseModel

ORDER_LIMIT = 100_000
"""Most characters of a spec without its `runtime`: they are told to the job in one variable of a pod."""


def too_long(spec: BaseModel) -> Iterator[str]:
    """What is wrong with a spec of which a job cannot be told everything."""
    written = len(spec.model_dump_json(exclude={"runtime"}, exclude_defaults=True))
    if written > ORDER_LIMIT:
        yield f"spec: {written} characters are more than a job can be told; {ORDER_LIMIT} is the most"
