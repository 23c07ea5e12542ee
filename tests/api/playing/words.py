"""What the played parts of an operator say of one object, by files; see `playing/operator.py`."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

PATIENCE = timedelta(seconds=2)
"""How long the scheduler must have found no room for a pod before anything follows: tests wait for it."""
LONG_IDLE = 3600.0
"""Seconds since the last request, where nobody has come for long."""


class PlayedWords:
    """What a model answers, and what gateways say.

    Args:
        answer: File with the model's words.
        traffic: File with the gateways'.
    """

    def __init__(self, answer: Path, traffic: Path) -> None:
        self._answer = answer
        self._traffic = traffic

    def answers(self, words: str = "") -> None:
        """From now on the model answers; or says these words instead."""
        write_whole(self._answer, words)

    def silent(self) -> None:
        """From now on nobody answers."""
        self._answer.unlink(missing_ok=True)

    def traffic(self, **said: Any) -> None:
        """What gateways say from now on."""
        write_whole(self._traffic, json.dumps(said))

    def idle(self) -> None:
        """Nobody has come for long."""
        self.traffic(idle=LONG_IDLE)


def write_whole(file: Path, text: str) -> None:
    """Write a file whole: who reads it at the same time sees the one text or the other."""
    new = file.parent / f".{file.name}"
    new.write_text(text)
    new.replace(file)
