"""The log of the small programs, in the form of the agent's (`daybreak.logs`), without what that loads."""

import json
import logging
from datetime import UTC, datetime

_OWN = frozenset(vars(logging.makeLogRecord({})))
"""What every record has; all else was said by who logs."""


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        said = {name: value for name, value in vars(record).items() if name not in _OWN}
        at = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        said |= {"event": record.getMessage(), "level": record.levelname.lower(), "logger": record.name}
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps({**said, "timestamp": at}, default=repr)


def configure(level: str) -> None:
    """Log to standard error, from this level on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
