"""Command line: `python -m quickstart up|down`."""

import signal
import sys
from collections.abc import Mapping

from cluster import __main__ as cluster_program
from cluster import with_images
from cluster.errors import ClusterError
from cluster.images import catalog
from cluster.tools.report import Report
from quickstart import install, removal
from quickstart.target import Target, chosen


def up(report: Report) -> None:
    """Start a cluster if none is given, load images, install KubeRay, Daybreak and a model, and chat."""
    target = chosen()
    if target.embedded:
        with_images.up(report, then=lambda: _install(target, catalog.references(), report))
    else:
        _install(target, install.own_images(), report)
    install.sample(target, report)
    install.talk(target, report)


def _install(target: Target, references: Mapping[str, str], report: Report) -> None:
    install.kuberay(target, report)
    install.daybreak(target, references, report)


def down(report: Report) -> None:
    """Remove the whole embedded cluster, or the objects that `up` installed in the user's cluster."""
    target = chosen()
    if target.embedded:
        raise SystemExit(cluster_program.main(["down"]))
    removal.remove(target, report)


def main(arguments: list[str]) -> int:
    """Run one command and return the exit status; an error is one line."""
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
        print(f"make {arguments[0]}: interrupted; run it again to continue", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
