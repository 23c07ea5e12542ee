"""Command line: `python -m quickstart up|down`."""

import signal
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from cluster import __main__ as cluster_program
from cluster import full, images, machine
from cluster.errors import ClusterError
from cluster.locks import lock
from cluster.report import Report
from quickstart import install
from quickstart.target import NAMESPACE, Target, chosen


def up(report: Report) -> None:
    """A cluster if none is given, images, KubeRay, Daybreak, a sample model, an answer."""
    target = chosen()
    if target.embedded:
        machine.check_platform()
        # Images are built while the cluster starts: the one uses the disk while the other waits. Daybreak's
        # are there long before Ray's, so that it is installed meanwhile.
        with ThreadPoolExecutor(1) as pool:
            built = pool.submit(images.build, report=report)
            with lock("cluster"):
                full.up(report)
            images.ensure(images.OURS, report)
            _install(target, images.references(), report)
            built.result()
        images.ensure(report=report)
    else:
        _install(target, install.own_images(), report)
    install.sample(target, report)
    install.talk(target, report)


def _install(target: Target, references: Mapping[str, str], report: Report) -> None:
    install.kuberay(target, report)
    install.daybreak(target, references, report)


def down(report: Report) -> None:
    """Remove everything: the embedded cluster whole, or from one's own cluster what `up` installed."""
    target = chosen()
    if target.embedded:
        raise SystemExit(cluster_program.main(["down"]))
    with report.step("Daybreak and the sample model removed from your cluster", expect_seconds=20):
        if target.has_api("daybreak.dev"):
            target.kubectl(
                "delete", "-n", install.SAMPLE_NAMESPACE, "llmservice", install.SAMPLE_NAME,
                "--ignore-not-found", "--wait",
            )  # fmt: skip
        target.helm("uninstall", "daybreak", "--namespace", NAMESPACE, "--ignore-not-found", "--wait")
    report.say(
        "kept: the LLMService CRD (kubectl delete crd llmservices.daybreak.dev removes it) and KubeRay"
    )


def main(arguments: list[str]) -> int:
    """Run one command; an error is one line."""
    commands = {"up": up, "down": down}
    if len(arguments) != 1 or arguments[0] not in commands:
        print("usage: python -m quickstart up|down", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        commands[arguments[0]](Report())
    except ClusterError as error:
        print(f"make {arguments[0]}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"make {arguments[0]}: interrupted; run it again to go on", file=sys.stderr)
        return 130
    return 0


sys.exit(main(sys.argv[1:]))
