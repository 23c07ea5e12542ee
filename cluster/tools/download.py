"""Error message of failed downloads on a machine without network, in one line.

`python3 cluster/tools/download.py WHAT COMMAND...` runs a command without output unless it fails. It
imports nothing of the package: the Makefile calls it before an environment for imports exists.
"""

import re
import subprocess
import sys

_NO_NETWORK = re.compile(
    r"no such host|network is unreachable|no route to host|temporary failure (?:in name resolution|resolving)"
    r"|could not (?:resolve|connect)|connection refused|connection timed out|i/o timeout|handshake timeout"
    r"|proxyconnect|proxyerror|dns error|error sending request|failed to fetch|unable to (?:fetch|locate)",
    re.IGNORECASE,
)
_NOISE = re.compile(r"<\S+ object at 0x\w+>: ")
_LIMIT = 160


def cannot(what: str, message: str) -> str:
    """Return the error line for a program's output if the network caused the failure, otherwise ""."""
    for line in message.splitlines():
        if _NO_NETWORK.search(line):
            words = " ".join(_NOISE.sub("", line).split())
            words = words if len(words) <= _LIMIT else f"…{words[-_LIMIT:]}"
            return f"{what} cannot be downloaded: {words} (no network, or HTTPS_PROXY is not set?)"
    return ""


def main(arguments: list[str]) -> int:
    """Run a command and report its failure in one line."""
    what, *command = arguments
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603
    if done.returncode == 0:
        return 0
    report = (done.stderr or done.stdout).strip()
    last = report.splitlines()[-1] if report else f"exit status {done.returncode}"
    print(f"make: {cannot(what, report) or f'{what} cannot be installed: {last}'}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
