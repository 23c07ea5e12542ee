"""`python -m cluster`: bring the embedded cluster up, look at it, take it down."""

import argparse
import re
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from cluster import build, full, paths, status, with_images
from cluster.control_plane.fake_nodes import GPU, FakeNode
from cluster.control_plane.plane import ControlPlane
from cluster.errors import ClusterError
from cluster.machine import requirements
from cluster.tools import ports
from cluster.tools.locks import lock
from cluster.tools.report import Report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        options.run(options)
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    except PermissionError as error:
        print(f"cluster: {error.filename} may not be written by this user: run it as root", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("cluster: interrupted; run the same command again to continue", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m cluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    up = commands.add_parser(
        "up", help="start what does not run yet: a whole cluster, or only a control plane"
    )
    what = up.add_mutually_exclusive_group()
    what.add_argument("--control-plane", action="store_true", help="only etcd and kube-apiserver, in seconds")
    what.add_argument("--images", action="store_true", help="build and load all images during the start")
    up.add_argument("--name", type=_name, default="", help="with --control-plane: name of an additional one")
    up.add_argument(
        "--crds", action="append", default=[], help="with --control-plane: `kuberay`, or files or folders"
    )
    up.add_argument(
        "--controllers", action="store_true", help="with --control-plane: kube-controller-manager too"
    )
    up.add_argument("--scheduler", action="store_true", help="with --control-plane: kube-scheduler too")
    up.set_defaults(run=_up)

    down = commands.add_parser("down", help="remove the cluster and every control plane, leaving nothing")
    down.add_argument(
        "--control-plane", action="store_true", help="only the control plane (--name: of that name)"
    )
    down.add_argument("--name", type=_name, default="")
    down.add_argument("--keep-binaries", action="store_true", help="leave the programs for the next `up`")
    down.set_defaults(run=_down)

    commands.add_parser("status", help="what runs, which version, how much memory").set_defaults(run=_status)

    nodes = commands.add_parser("fake-nodes", help="add nodes with fake GPUs, played by kwok")
    nodes.add_argument("--count", type=int, default=1)
    nodes.add_argument("--gpus", type=int, default=8, help=f"{GPU} of each")
    nodes.add_argument("--prefix", default="gpu", type=_name, help="names are PREFIX-0, PREFIX-1, ...")
    nodes.add_argument("--label", action="append", default=[], metavar="KEY=VALUE")
    nodes.add_argument("--taint", action="append", metavar="KEY=VALUE:EFFECT", help="`none` for no taint")
    nodes.add_argument(
        "--control-plane", action="store_true", help="on the control plane (--name: of that name)"
    )
    nodes.add_argument("--name", type=_name, default="")
    nodes.set_defaults(run=_fake_nodes)

    make = commands.add_parser("build", help="only build the programs")
    make.add_argument("--for", dest="purpose", choices=sorted(build.SETS), default="all")
    make.set_defaults(run=_build)
    return parser


def _name(text: str) -> str:
    if text and not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name: lower-case letters, digits and hyphens")
    return text


def _up(options: argparse.Namespace) -> None:
    report = Report()
    if options.images:
        with_images.up(report)
        return
    if not options.control_plane:
        with lock("cluster"):
            full.up(report)
        return
    requirements.check_platform()
    build.build(build.SETS["control-plane"], report)
    plane = ControlPlane(
        paths.control_plane(options.name),
        controllers=options.controllers,
        scheduler=options.scheduler,
        crds=[_crds(text) for text in options.crds],
    )
    with lock(f"control-plane-{options.name}"), report.step("etcd and kube-apiserver"):
        plane.start()
    report.write(f"ready: export KUBECONFIG={plane.kubeconfig}")


def _crds(text: str) -> Path:
    if text == "kuberay":
        return build.kuberay_crds()
    if not Path(text).exists():
        raise ClusterError(f"--crds {text}: neither `kuberay` nor a file or folder that exists")
    return Path(text)


def _down(options: argparse.Namespace) -> None:
    if options.control_plane:
        with lock(f"control-plane-{options.name}"):
            ControlPlane(paths.control_plane(options.name)).remove()
        return
    report = Report()
    with lock("cluster"):
        full.down(report)
    for directory in ports.holders(paths.PORTS):
        with report.step(f"control plane in {directory} removed"):
            ControlPlane(directory).remove()
    if not options.keep_binaries:
        with report.step("programs removed"):
            for folder in (paths.BIN, paths.SHARE):
                shutil.rmtree(folder, ignore_errors=True)


def _status(options: argparse.Namespace) -> None:
    print(status.status())


def _fake_nodes(options: argparse.Namespace) -> None:
    labels = dict(_label(text) for text in options.label)
    taints = (
        FakeNode.taints if options.taint is None else [taint for taint in options.taint if taint != "none"]
    )
    nodes = [
        FakeNode(f"{options.prefix}-{number}", gpus=options.gpus, labels=labels, taints=taints)
        for number in range(options.count)
    ]
    plane = (
        ControlPlane(paths.control_plane(options.name))
        if options.control_plane
        else full.ClusterControlPlane()
    )
    if plane.apiserver is None:
        raise ClusterError("that cluster does not run: start it with `up` first")
    build.build(build.SETS["fake-nodes"], Report())
    plane.prepare()
    plane.add_fake_nodes(nodes)
    print(plane.kubectl("get", "nodes"), end="")


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ClusterError(f"--label {text}: write KEY=VALUE")
    return key, value


def _build(options: argparse.Namespace) -> None:
    build.build(build.SETS[options.purpose], Report())


if __name__ == "__main__":
    sys.exit(main())
