"""HAProxy and agent under separate users with one group, as in a pod: all works, no secret is readable."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from daybreak.gateways.objects import AGENT_USER_ID, USER_ID
from tests.gateway.agent_process import AgentProcess
from tests.gateway.scene import Scene

pytestmark = [
    # One control plane for all of them.
    pytest.mark.xdist_group("gateway-agent"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root starts programs as other users"),
]

KEY = "sk-of-two-users"
USERS = {"haproxy": USER_ID, "agent": AGENT_USER_ID}
REACHABLE = """
set -e
kept=$(mktemp -d)
mount --bind "$2" "$kept"
mount -t tmpfs -o mode=755 tmpfs "$1"
mkdir -p "$2"
mount --move "$kept" "$2"
rmdir "$kept"
shift 2
exec "$@"
"""
"""Makes a folder ($2) readable for all, below a closed parent ($1), in a separate mount namespace."""


class TwoUsers(AgentProcess):
    """Each program has its own user. Their folder is as the kubelet makes it for an fsGroup."""

    def __init__(self, kubeconfig: Path, namespace: str, folder: Path, *more: Any) -> None:
        # pytest's own folders are for root alone.
        self.place = Path(tempfile.mkdtemp(prefix="daybreak-users-"))
        self.place.chmod(0o755)
        self.shared = self.place / "gw"
        self.shared.mkdir()
        os.chown(self.shared, 0, USER_ID)
        self.shared.chmod(0o2770)
        own = self.place / "agent"
        self.key = own / "keys" / "clients" / "key"
        self.key.parent.mkdir(parents=True)
        self.key.write_text(KEY)
        shutil.copy(kubeconfig, own / "kubeconfig")
        for path in (own, *own.rglob("*")):
            os.chown(path, AGENT_USER_ID, AGENT_USER_ID)
            path.chmod(0o700)
        super().__init__(own / "kubeconfig", namespace, folder, *more)
        self._environment |= {
            "GATEWAY_FOLDER": str(self.shared),
            "GATEWAY_KEYS_FOLDER": str(own / "keys"),
        }

    def before(self, program: str) -> list[str]:
        return as_user(USERS[program])


def as_user(user: int) -> list[str]:
    """Return the start of a command that runs it as this user."""
    closed = [each for each in reversed(Path(sys.base_prefix).parents) if not each.stat().st_mode & 0o001]
    reachable = ["unshare", "--mount", "sh", "-c", REACHABLE, "sh", str(closed[0]), sys.base_prefix]
    return [
        *(reachable if closed else ()),
        "setpriv",
        f"--reuid={user}",
        f"--regid={USER_ID}",
        "--clear-groups",
        "--",
    ]


@pytest.fixture
def programs() -> Iterator[Any]:
    made: list[TwoUsers] = []

    def start(*arguments: Any) -> TwoUsers:
        made.append(TwoUsers(*arguments))
        return made[0]

    yield start
    for each in made:
        shutil.rmtree(each.place)


async def test_gateway_works_and_hides_secrets_with_separate_users(scene: Scene) -> None:
    scene.goes_well = False
    gateway = scene.agent
    assert isinstance(gateway, TwoUsers)
    key = {"secretRef": {"name": "clients", "key": "key"}}
    scene.service(access={"apiKeys": [key]})
    scene.head()
    await scene.gate("Closed")
    bearer = {"Authorization": f"Bearer {KEY}"}
    assert (await gateway.ask(0, "a stranger"))[0] == 401
    held = asyncio.create_task(gateway.ask(0, "held", b"{}", **bearer))
    await gateway.until("tiny/tiny", lambda report: report.held == 1)
    await scene.gate("Open")
    assert (await held)[0] == 200

    users = {pid: set(psutil.Process(pid).uids()) for pid in (gateway.haproxy, gateway.router, gateway.agent)}
    assert list(users.values()) == [{USER_ID}, {USER_ID}, {AGENT_USER_ID}]
    nothing_to_find(gateway)

    agent, haproxy = gateway.agent, gateway.haproxy
    stream = asyncio.create_task(gateway.stream(0, "stream", Connection="close", **bearer))
    await gateway.until("tiny/tiny", lambda report: report.in_flight == 1)
    os.kill(agent, signal.SIGKILL)
    assert (await gateway.ask(0, "without an agent", b"{}", **bearer))[0] == 200
    await gateway.replaced(agent)
    assert gateway.haproxy == haproxy

    await scene.gate("Closed")
    last = asyncio.create_task(gateway.ask(0, "last", b"{}", **bearer))
    await gateway.until("tiny/tiny", lambda report: report.held == 1)
    gateway.end()
    assert await gateway.until_page("/readyz", 503) == "draining"
    scene.serve.finish.set()
    scene.write_gate("Open")
    assert (await last)[0] == 200
    assert b"[DONE]" in await stream
    assert await gateway.ended() == (0, 0)
    observed = {"held": 1, "stream": 1, "without an agent": 1, "last": 1}
    assert dict(scene.serve.observed) == observed


def nothing_to_find(gateway: TwoUsers) -> None:
    """Check the view of HAProxy's user: the shared folder, which has no key, and no file of the agent."""
    command = ["cat", *map(str, gateway.shared.rglob("*.*"))]
    shown = subprocess.run([*as_user(USER_ID), *command], check=False, capture_output=True)  # noqa: S603
    assert b"daybreak" in shown.stdout
    assert KEY.encode() not in shown.stdout
    for closed in (gateway.key, gateway.key.parents[2] / "kubeconfig", f"/proc/{gateway.agent}/environ"):
        tried = subprocess.run(  # noqa: S603
            [*as_user(USER_ID), "cat", str(closed)], check=False, capture_output=True, text=True
        )
        assert "Permission denied" in tried.stderr
    shared = {path.name: path.stat().st_mode & 0o777 for path in gateway.shared.iterdir()}
    assert {name: mode for name, mode in shared.items() if mode & 0o007} == {}
    assert shared["control.sock"] == shared["admin.sock"] == 0o660
