"""Files with the simulated answers and reports for one object; see `playing/operator.py`."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

PATIENCE = timedelta(seconds=2)
"""How long the scheduler must have found no room for a pod before anything follows: tests wait for it."""
LONG_IDLE = 3600.0
"""Seconds since the last request of a model that has been idle for long."""


class PlayedWords:
    """Answers of a model and reports of gateways.

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
        """Make the model unresponsive from now on."""
        self._answer.unlink(missing_ok=True)

    def traffic(self, **message: Any) -> None:
        """Set the gateways' reports from now on."""
        write_whole(self._traffic, json.dumps(message))

    def idle(self) -> None:
        """Report no requests for a long time."""
        self.traffic(idle=LONG_IDLE)


def write_whole(file: Path, text: str) -> None:
    """Write a file atomically: a concurrent reader sees the old text or the new one."""
    new = file.parent / f".{file.name}"
    new.write_text(text)
    new.replace(file)
