"""Program that `test_fork_server.py` starts."""

import asyncio
import os
import signal
import sys


async def main() -> bool:
    """Print the word, a hash and the signal handler's state. Return True unless the word is `bad`."""
    print(os.environ["WORD"], hash("a word"), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
    print("to the log", file=sys.stderr)
    await asyncio.sleep(float(os.environ.get("SECONDS", "0")))
    return os.environ["WORD"] != "bad"
