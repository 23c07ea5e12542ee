"""Reads the environment variables that the operator sets in the gateway's pod."""

import os
from collections.abc import Mapping

DRAINING_SINCE = "GATEWAY_DRAINING_SINCE"
"""Tells an agent that the pod was told to end before it was started: when, on the monotonic clock."""
WATCHDOG = "GATEWAY_WATCHDOG"
"""Tells an agent where to say that it lives: a file descriptor that its keeper reads."""
LOG_LEVELS = ("debug", "info", "warning", "error")


class InvalidSettings(ValueError):
    """An environment variable that is missing, or has a value that means nothing."""


class Environment:
    """Values of environment variables, checked; errors name the variable and what it takes."""

    def __init__(self, variables: Mapping[str, str] = os.environ) -> None:
        self._variables = variables

    def text(self, name: str, default: str = "") -> str:
        """A text; the default where there is none, or nothing but white space."""
        return self._variables.get(name, "").strip() or default

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number within bounds. Raises InvalidSettings."""
        value = self.text(name, str(default))
        if not value.isdecimal() or not least <= int(value) <= most:
            raise InvalidSettings(f"{name} is {value!r}: use a number from {least} to {most}")
        return int(value)

    @property
    def log_level(self) -> str:
        """LOG_LEVEL. Raises InvalidSettings."""
        level = self.text("LOG_LEVEL", "info").lower()
        if level not in LOG_LEVELS:
            raise InvalidSettings(f"LOG_LEVEL is {level!r}: use one of {', '.join(LOG_LEVELS)}")
        return level

    @property
    def folder(self) -> str:
        """GATEWAY_FOLDER: a writable folder of the pod's own, which HAProxies and agent share."""
        return self.text("GATEWAY_FOLDER", "/run/daybreak-gateway")

    @property
    def leave_seconds(self) -> int:
        """GATEWAY_LEAVE_SECONDS: how long it still takes requests at its end. Raises InvalidSettings."""
        return self.number("GATEWAY_LEAVE_SECONDS", 5, 0, 3600)

    @property
    def drain_seconds(self) -> int:
        """GATEWAY_DRAIN_SECONDS: how long what is held or streams may then finish. Raises InvalidSettings."""
        return self.number("GATEWAY_DRAIN_SECONDS", 300, 0, 86400)
