"""Environment variables that the operator sets in the gateway's pod."""

import os
from collections.abc import Mapping

DRAINING_SINCE = "GATEWAY_DRAINING_SINCE"
"""Variable with the time at which the pod's termination began before the agent's start, on the monotonic
clock."""
WATCHDOG = "GATEWAY_WATCHDOG"
"""Variable with the file descriptor for the agent's heartbeats, which its keeper reads."""
LOG_LEVELS = ("debug", "info", "warning", "error")


class InvalidSettings(ValueError):
    """Missing or invalid environment variable."""


class Environment:
    """Checked values of environment variables; errors name the variable and its allowed values."""

    def __init__(self, variables: Mapping[str, str] = os.environ) -> None:
        self._variables = variables

    def text(self, name: str, default: str = "") -> str:
        """Return a text, or the default if there is none or only white space."""
        return self._variables.get(name, "").strip() or default

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """Return a whole number within bounds. Raises InvalidSettings."""
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
        """GATEWAY_FOLDER: writable folder of the pod that HAProxies and agent share."""
        return self.text("GATEWAY_FOLDER", "/run/daybreak-gateway")

    @property
    def leave_seconds(self) -> int:
        """GATEWAY_LEAVE_SECONDS: time for which the gateway still accepts requests at its end.

        Raises InvalidSettings.
        """
        return self.number("GATEWAY_LEAVE_SECONDS", 5, 0, 3600)

    @property
    def drain_seconds(self) -> int:
        """GATEWAY_DRAIN_SECONDS: time in which held and running requests may then finish.

        Raises InvalidSettings.
        """
        return self.number("GATEWAY_DRAIN_SECONDS", 300, 0, 86400)
