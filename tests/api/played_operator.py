"""The operator with some parts exchanged, as far as the environment asks for it.

Models are not asked over a network that is not there: whether the service NAME of namespace NS answers is
said by the file NS.NAME in the folder $DAYBREAK_PLAYED_ANSWERS. Absent, it does not answer; its text is what
the service says instead of an answer.

$DAYBREAK_PLAYED_DEATH="N MOMENT" has the process kill itself at its Nth write (its lease aside): `before` the
request, when it is `sent`, or `after` the answer has come and before anything is made of it.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from daybreak import logs
from daybreak.__main__ import run
from daybreak.api.llmservice import LLMService
from daybreak.api.spec import Model
from daybreak.kube.cache import Key
from daybreak.kube.client import Api
from daybreak.kube.resources import LEASES, Resource
from daybreak.lifecycle.observed import Answer
from daybreak.lifecycle.traffic import Traffic
from daybreak.reconcile.gateways import Gateways
from daybreak.settings import Settings


class PlayedProber:
    """Answers as the folder says."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def ask(self, service: LLMService, model: Model, base: str, patience: float) -> Answer:
        """What the folder says."""
        file = self._folder / f"{service.namespace}.{service.name}"
        if not file.exists():
            return Answer(model.name, False, "nobody plays this service")
        said = file.read_text()
        return Answer(model.name, not said, said)

    async def close(self) -> None:
        """Nothing is open."""


class MortalApi(Api):
    """Talks to the API server until it dies."""

    writes = 0
    number, moment = 0, ""

    async def request(self, verb: str, resource: Resource, path: str, **options: Any) -> dict[str, Any]:
        """One request, perhaps the last."""
        if verb in ("get", "list") or resource is LEASES:
            return await super().request(verb, resource, path, **options)
        self.writes += 1
        last = self.writes == self.number
        if last and self.moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        asked = asyncio.create_task(super().request(verb, resource, path, **options))
        if last and self.moment == "sent":
            await asyncio.wait([asked], timeout=0.003)
            os.kill(os.getpid(), signal.SIGKILL)
        answer = await asked
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer


class PlayedGateways(Gateways):
    """Gateways that carry out at once whatever is decided, and to which nobody comes."""

    def traffic(self, service: Key) -> Traffic:
        """Nobody comes."""
        return Traffic(known=True, acknowledged=2**31, routed=True)


async def main() -> bool:
    """The operator."""
    settings = Settings.from_environment()
    logs.configure(settings.log_level)
    death = os.environ.get("DAYBREAK_PLAYED_DEATH", "").split()
    if death:
        MortalApi.number, MortalApi.moment = int(death[0]), death[1]
    prober = PlayedProber(Path(os.environ["DAYBREAK_PLAYED_ANSWERS"]))
    return await run(settings, prober, MortalApi.connect, PlayedGateways)


if __name__ == "__main__":
    sys.exit(0 if asyncio.run(main()) else 1)
