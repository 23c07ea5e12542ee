"""The commands of docs/tutorial.md print the outputs of the page."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from cluster import paths
from story.objects import console
from story.objects.kubernetes import Kubernetes, eventually

PAGE = Path("docs/tutorial.md")
FIRST = "make up\nexport KUBECONFIG=$PWD/.daybreak/kubeconfig PATH=$PWD/.daybreak/bin:$PATH\n"
"""First block of the page. The fixtures of the stories have already done the same."""
END = "--- end of block"
TIMEOUT_SECONDS = 1100


def test_each_command_of_the_tutorial_prints_the_output_of_the_page(
    kubernetes: Kubernetes, tiny: str, tiny_manifest: dict[str, Any]
) -> None:
    # As `make up` leaves it: earlier stories let it sleep.
    kubernetes.patch(tiny, {"spec": {"sleep": None}})
    eventually(lambda: service_phase(kubernetes, tiny), lambda phase: phase == "Awake")
    commands, outputs = console.blocks(PAGE.read_text())
    assert commands[0] == FIRST
    script = "set -eu -o pipefail\n" + "".join(f"{each}echo '{END}'\n" for each in commands[1:])
    environment = os.environ | {
        "KUBECONFIG": str(kubernetes.target.kubeconfig),
        "PATH": f"{paths.BIN}:{os.environ['PATH']}",
    }
    # In a separate session, because the port-forward of the page must not outlive a failure.
    with subprocess.Popen(  # noqa: S603 - the commands of the page
        ["/bin/bash", "-c", script],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            printed, _ = shell.communicate(timeout=TIMEOUT_SECONDS)
        finally:
            # Also after an end of the shell, which leaves the port-forward.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGTERM)
    print(printed)
    blocks = printed.split(f"{END}\n")
    for command, output, found in zip(commands[1:], outputs[1:], blocks, strict=False):
        assert console.unlike(output, found) is None, f"{command}\nprinted:\n{found}"
    assert shell.returncode == 0
    # The page deletes it, and the next story needs it.
    kubernetes.apply(tiny_manifest)
    kubernetes.wait_ready(tiny)
    assert len(blocks[:-1]) == len(commands[1:]) == len(outputs[1:]), "every block was compared"


def service_phase(kubernetes: Kubernetes, name: str) -> str:
    """Return the phase of an LLMService, empty before its first status."""
    return str((kubernetes.get("llm", name) or {}).get("status", {}).get("phase", ""))
