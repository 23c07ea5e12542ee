"""The commands of docs/tutorial.md print what the page shows. Removes the tiny sample, as the page does."""

import os
import subprocess
from pathlib import Path

from cluster import paths
from story.objects import console
from story.objects.kubernetes import Kubernetes

PAGE = Path("docs/tutorial.md")
FIRST = "make up\nexport KUBECONFIG=$PWD/.daybreak/kubeconfig PATH=$PWD/.daybreak/bin:$PATH\n"
"""First block of the page. The fixtures of the stories have already done the same."""
END = "--- end of block"
TIMEOUT_SECONDS = 1100


def test_each_command_of_the_tutorial_prints_the_output_of_the_page(
    kubernetes: Kubernetes, tiny: str
) -> None:
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
            if shell.poll() is None:
                os.killpg(shell.pid, 15)
    print(printed)
    blocks = printed.split(f"{END}\n")
    for command, output, found in zip(commands[1:], outputs[1:], blocks, strict=False):
        assert console.unlike(output, found) is None, f"{command}\nprinted:\n{found}"
    assert shell.returncode == 0
    assert len(blocks[:-1]) == len(commands[1:]) == len(outputs[1:]), "every block was compared"
