"""A resource of the embedded cluster's node, of which a measurement says how many there are."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.api.admin import Admin

SLOT = "bench.daybreak.dev/slot"


@contextmanager
def slots(admin: Admin, count: int) -> Iterator[None]:
    """So many of it, on the one node there is, until the block ends."""
    set_slots(admin, count)
    try:
        yield
    finally:
        set_slots(admin, None)


def set_slots(admin: Admin, count: int | None) -> None:
    """So many from now on; None: the node does not have it."""
    (node,) = admin.list("Node")
    amount = {SLOT: None if count is None else str(count)}
    status = {"status": {"capacity": amount, "allocatable": amount}}
    admin.merge("Node", node["metadata"]["name"], status, subresource="status")
