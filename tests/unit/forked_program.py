"""A program that `test_fork_server.py` starts."""

import asyncio
import os
import signal
import sys


async def main() -> bool:
    """Say what it is, and do what the environment asks for."""
    print(os.environ["WORD"], hash("a word"), signal.getsignal(signal.SIGTERM) == signal.SIG_DFL)
    print("to the log", file=sys.stderr)
    await asyncio.sleep(float(os.environ.get("SECONDS", "0")))
    return os.environ["WORD"] != "bad"
