"""Run checks against a replica, and say what was seen."""

import argparse
import asyncio
import sys
from pathlib import Path

from direct.checks import CHECKS
from direct.target import Target


def main() -> int:
    """Run the checks that are named, or all of them."""
    parser = argparse.ArgumentParser(prog="python -m direct", description=__doc__)
    for name in ("replica", "serve", "dashboard", "model"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--token-file", type=Path, help="Ray's token, where its API asks for one")
    parser.add_argument("checks", nargs="*", choices=[[], *CHECKS], help="default: all")
    given = parser.parse_args()
    token = given.token_file.read_text().strip() if given.token_file else ""
    target = Target(given.replica, given.serve, given.dashboard, given.model, token)
    failed = 0
    for name in given.checks or CHECKS:
        try:
            said: str = asyncio.run(CHECKS[name](target))
        except AssertionError as error:
            failed, said = failed + 1, f"FAILED: {error}"
        print(f"{name}: {said}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
