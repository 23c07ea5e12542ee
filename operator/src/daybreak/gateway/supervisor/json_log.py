"""Log of the small programs, in the format of the agent's (`daybreak.logs`), without its imports."""

import json
import logging
from datetime import UTC, datetime

_OWN = frozenset(vars(logging.makeLogRecord({})))
"""Attributes of every record; the logging code adds all others."""


class JsonLines(logging.Formatter):
    """Formatter of one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        message = {name: value for name, value in vars(record).items() if name not in _OWN}
        at = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        message |= {"event": record.getMessage(), "level": record.levelname.lower(), "logger": record.name}
        if record.exc_info:
            message["exception"] = self.formatException(record.exc_info)
        return json.dumps({**message, "timestamp": at}, default=repr)


def configure(level: str) -> None:
    """Log to standard error, from this level on."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
