"""Command line: `python -m quickstart up|down`."""

import subprocess
import sys

from cluster import paths
from cluster.errors import ClusterError
from quickstart import install
from quickstart.progress import Progress
from quickstart.target import NAMESPACE, chosen


def up() -> None:
    """A cluster if none is given, images, KubeRay, Daybreak, a sample model, an answer."""
    progress = Progress()
    target = chosen()
    if target.embedded:
        with progress.step("embedded cluster"):
            _cluster("up")
    refs = install.images(target, progress)
    install.kuberay(target, progress)
    install.daybreak(target, refs, progress)
    install.sample(target, progress)
    install.talk(target, progress)


def down() -> None:
    """Remove everything: the embedded cluster whole, or from one's own cluster what `up` installed."""
    progress = Progress()
    target = chosen()
    if target.embedded:
        with progress.step("remove the embedded cluster"):
            _cluster("down")
        return
    with progress.step("remove Daybreak and the sample model from your cluster"):
        if target.has_api("daybreak.dev"):
            target.kubectl(
                "delete", "-n", install.SAMPLE_NAMESPACE, "llmservice", install.SAMPLE_NAME,
                "--ignore-not-found", "--wait",
            )  # fmt: skip
        target.helm("uninstall", "daybreak", "--namespace", NAMESPACE, "--ignore-not-found", "--wait")
    progress.say(
        "kept: the LLMService CRD (kubectl delete crd llmservices.daybreak.dev removes it) and KubeRay"
    )


def _cluster(command: str) -> None:
    """Run the embedded cluster's own program; it prints its progress and its errors itself."""
    done = subprocess.run(  # noqa: S603 - this interpreter and a fixed command
        [sys.executable, "-m", "cluster", command], cwd=paths.REPOSITORY, check=False
    )
    if done.returncode != 0:
        raise SystemExit(done.returncode)


def main(arguments: list[str]) -> int:
    """Run one command; an error is one line."""
    commands = {"up": up, "down": down}
    if len(arguments) != 1 or arguments[0] not in commands:
        print("usage: python -m quickstart up|down", file=sys.stderr)
        return 2
    try:
        commands[arguments[0]]()
    except ClusterError as error:
        print(f"make {arguments[0]}: {error}", file=sys.stderr)
        return 1
    return 0


sys.exit(main(sys.argv[1:]))
