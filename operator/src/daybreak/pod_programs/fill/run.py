"""Main program: reads the request, fills the PVC, and reports the result to Kubernetes."""

import errno
import json
import os
import sys
from pathlib import Path

from daybreak.pod_programs.fill.files import Stuck
from daybreak.pod_programs.fill.gather import fill

MESSAGE_LIMIT = 3000
"""Maximum length of a message in characters. Kubernetes keeps 4096 bytes."""


def main() -> int:
    """Read the request, fill the PVC and report the result."""
    log = Path(os.environ.get("TERMINATION_LOG", "/dev/termination-log"))
    try:
        reported = fill(json.loads(os.environ["DAYBREAK_FILL"]))
    except Stuck as error:
        return _failed(log, str(error), 2)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return _failed(log, "the PVC is full: make it larger", 2)
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            return _failed(log, f"the PVC cannot be written by user {os.getuid()}: {error}", 2)
        return _failed(log, f"{type(error).__name__}: {error}", 1)
    except Exception as error:  # noqa: BLE001 -- any error of a download is reported and retried
        return _failed(log, f"{type(error).__name__}: {error}", 1)
    log.write_text(json.dumps(reported))
    print(f"complete: {reported}", flush=True)
    return 0


def _failed(log: Path, message: str, status: int) -> int:
    log.write_text(message[:MESSAGE_LIMIT])
    print(message, file=sys.stderr, flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
