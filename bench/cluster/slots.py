"""Resource of the embedded cluster's node whose amount a measurement sets."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.api.admin import Admin

SLOT = "bench.daybreak.dev/slot"


@contextmanager
def slots(admin: Admin, count: int) -> Iterator[None]:
    """Give the single node this amount of the resource until the block ends."""
    set_slots(admin, count)
    try:
        yield
    finally:
        set_slots(admin, None)


def set_slots(admin: Admin, count: int | None) -> None:
    """Set the amount of the resource, or remove it if `count` is None."""
    (node,) = admin.list("Node")
    amount = {SLOT: None if count is None else str(count)}
    status = {"status": {"capacity": amount, "allocatable": amount}}
    admin.merge("Node", node["metadata"]["name"], status, subresource="status")
