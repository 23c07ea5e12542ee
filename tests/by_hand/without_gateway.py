"""LeaderWorkerSet's own rolling update, which changes a ModelServer on several nodes without a gateway.

Run as `leader_worker_sets.py`, in a separate run: its operator has other settings.
"""

from collections.abc import Iterator

import pytest

from tests.api.admin import Admin, eventually
from tests.api.objects.servers import CHAT, NAME, Player, image_of, pods, ready

pytestmark = pytest.mark.usefixtures("operator")


@pytest.fixture
def server(player: Player, admin: Admin) -> Iterator[Player]:
    """It is there with two replicas, and ready."""
    player.answers()
    parallelism = {"tensor": 2, "pipeline": 2}
    one = CHAT.manifest(
        accelerator={"kind": "gpu"}, parallelism=parallelism, nodes=2, image="engine:1", replicas=2
    )
    admin.create(one)
    eventually("two replicas", lambda: CHAT.status(admin).get("replicas") == 2)
    yield player
    admin.delete(CHAT.kind, NAME)
    eventually("no pods", lambda: not pods(admin))


def test_rolling_update_keeps_two_replicas_ready(server: Player) -> None:
    admin = server.admin
    admin.merge("ModelServer", NAME, {"spec": {"image": "engine:2"}})
    fewest: list[int] = []

    def done() -> bool:
        found = pods(admin)
        leaders = [each for each in found if each["metadata"]["name"].count("-") == 2 and ready(each)]
        fewest.append(len(leaders))
        return len(found) == 4 and {image_of(each) for each in found} == {"engine:2"}

    eventually("all are new", done, pause=0.02)
    assert min(fewest) == 2
    eventually("ready", lambda: CHAT.condition(admin, "Ready").get("status") == "True")
    eventually("both are counted", lambda: CHAT.status(admin)["replicas"] == 2)
