"""The ModelServer of the API tests, and what plays around it.

The Deployment's controller is the real one; the kubelet is played, since there is no node.
"""

from pathlib import Path
from typing import Any

from daybreak.api.common import names
from tests.api.admin import Admin, eventually
from tests.api.owners import Subject
from tests.api.playing.words import PlayedWords

NAME = "chat"
OWN_ENGINES = {
    "embedder": {
        "image": "embedder:1",
        "args": ["--model={weights}"],
        "flags": "none",
        "port": 8090,
        "readinessPath": "/up",
        "protocol": "Any",
    }
}
"""What the installation adds to the engines that there are."""
CHAT = Subject(
    "ModelServer",
    NAME,
    {
        "ServiceAccount": "server.chat-sa",
        "NetworkPolicy": "server.chat-ray",
        "PodDisruptionBudget": "server.chat-ray",
        "Service": "chat",
        "Deployment": "chat-server",
    },
    {
        "engine": "vllm",
        "model": {"name": "tiny", "source": "file:///models/tiny"},
        "accelerator": {"kind": "cpu"},
    },
)


def pods(admin: Admin) -> list[dict[str, Any]]:
    """Its pods."""
    found: list[dict[str, Any]] = admin.list("Pod", labelSelector=f"{names.SERVICE_LABEL}=server.{NAME}")
    return found


class Player(PlayedWords):
    """Plays the kubelet, the engine and gateways for it.

    Args:
        admin: The test's hands in its namespace.
        answers: Folder that says which services answer; see `played_operator.py`.
        traffic: Folder that says what gateways say.
    """

    def __init__(self, admin: Admin, answers: Path, traffic: Path) -> None:
        super().__init__(answers / f"{admin.namespace}.{NAME}", traffic / f"{admin.namespace}.server.{NAME}")
        self.admin = admin

    def starts(self) -> str:
        """Its pod runs and is ready. Returns the pod's name."""
        [pod] = eventually("its pod", lambda: pods(self.admin))
        name = str(pod["metadata"]["name"])
        conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "PodScheduled")]
        running = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
        self.admin.merge("Pod", name, {"status": running | {"conditions": conditions}}, subresource="status")
        return name

    def reaches(self, phase: str, gate: str) -> dict[str, Any]:
        """Wait until the status says this. Returns the model's gate."""

        def there() -> dict[str, Any] | None:
            said = CHAT.status(self.admin)
            found: dict[str, Any] = ((said.get("gate") or {}).get("models") or [{}])[0]
            return found if (said.get("phase"), found.get("state")) == (phase, gate) else None

        try:
            return eventually(f"{phase}, gate {gate}", there)
        except AssertionError as error:
            raise AssertionError(f"{error}; its status is {CHAT.status(self.admin)}") from None

    def awake(self, **spec: Any) -> dict[str, Any]:
        """Make it, and bring it up. Returns its model's gate."""
        self.admin.create(CHAT.manifest(**spec))
        self.starts()
        self.answers()
        return self.reaches("Awake", "Open")
