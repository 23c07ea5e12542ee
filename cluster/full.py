"""Full cluster on this machine: a control plane, one real node, CoreDNS and KubeRay.

Each step first checks the current state. `up` therefore continues after an interrupted run and is fast if
everything runs.
"""

import hashlib
import shutil
import time
from dataclasses import fields
from pathlib import Path

from cluster import addons, build, paths
from cluster.addons import Addon
from cluster.control_plane import commands
from cluster.control_plane.certs import Authority
from cluster.control_plane.plane import ControlPlane
from cluster.errors import ClusterError
from cluster.images.static_image import StaticImage
from cluster.machine import host, requirements
from cluster.node import cgroups, containerd, kubelet, network
from cluster.node.containerd import PAUSE_IMAGE
from cluster.tools import files, ports
from cluster.tools.locks import lock
from cluster.tools.processes import Processes
from cluster.tools.programs import search_path
from cluster.tools.report import Report

APISERVER_PORT = 6443
_CAP_SYS_RESOURCE = 24
_NODE_SECONDS = 120.0


class ClusterControlPlane(ControlPlane):
    """Control plane of the full cluster; pods reach it at the node's address."""

    def __init__(self) -> None:
        super().__init__(paths.CLUSTER, controllers=True, scheduler=True)
        self.kubeconfig = paths.KUBECONFIG
        self.processes = Processes(self.directory, started=cgroups.join)
        self.address = network.NODE_ADDRESS
        self.hosts = (network.NODE_ADDRESS,)
        self.nodes = True

    def _allocate_ports(self) -> commands.Ports:
        count = len(fields(commands.Ports)) - 1
        return commands.Ports(APISERVER_PORT, *ports.reserve(paths.PORTS, self.directory, count))


def up(report: Report) -> None:
    """Start the whole cluster."""
    prepare(report)
    start(report)


def prepare(report: Report) -> None:
    """Check that the machine can run the cluster, and install the required packages.

    The packages include those for the images. All problems that a person must fix are reported here, before
    any long step. The function can be repeated safely.
    """
    requirements.check_platform()
    requirements.check_root()
    requirements.check_space(fresh=not paths.CONTAINERD_ROOT.exists())
    cgroups.check()
    build.check_go(build.SETS["cluster"])
    with lock("packages"):
        requirements.install_packages(report)
    _check_owner()


def start(report: Report) -> None:
    """Start all components that do not run yet, on a machine prepared by `prepare`."""
    build.build(build.SETS["cluster"], report)
    host.remember()
    with report.step("network and control groups"):
        cgroups.create()
        network.create()
    plane = ClusterControlPlane()
    _start_control_plane(plane, report)
    _start_node(plane, report)
    _start_addons(plane, report)
    report.write(f"ready: export KUBECONFIG={plane.kubeconfig}")


def down(report: Report) -> None:
    """Stop and remove the full cluster completely, in any state."""
    with report.step("cluster removed"):
        plane = ClusterControlPlane()
        # The kubelet first: it would restart the containers that are killed below.
        for name in (kubelet.KUBELET, *reversed(plane.processes.recorded())):
            plane.processes.stop(name, grace=3.0)
        if network.other_owner() is None:
            _clear_machine(paths.CLUSTER, paths.RUN)
        ports.release(paths.PORTS, plane.directory)
        for path in (paths.RUN, paths.CLUSTER):
            shutil.rmtree(path, ignore_errors=True)
        paths.KUBECONFIG.unlink(missing_ok=True)


def _check_owner() -> None:
    """Raise an error if another checkout's cluster runs here, and remove the rest of a deleted checkout."""
    owner = network.other_owner()
    if owner is None:
        return
    if owner.exists():
        raise ClusterError(f"the cluster of {owner.parent} runs on this machine: `make down` there first")
    run_directory = paths.run_directory(owner.parent)
    _clear_machine(owner, run_directory)
    shutil.rmtree(run_directory, ignore_errors=True)


def _clear_machine(state: Path, run_directory: Path) -> None:
    """Kill the processes in the cluster's cgroups, and undo mounts, network and cgroups."""
    cgroups.kill()
    host.restore(state, run_directory)
    network.remove()
    cgroups.remove()


def _start_control_plane(plane: ClusterControlPlane, report: Report) -> None:
    plane.prepare()
    with report.step("etcd"):
        plane.start_etcd()
    with report.step("kube-apiserver"):
        plane.start_apiserver()
    with report.step("kube-controller-manager, kube-scheduler"):
        plane.start_controller_manager()
        plane.start_scheduler()


def _start_node(plane: ClusterControlPlane, report: Report) -> None:
    full_rights = requirements.has_capability(_CAP_SYS_RESOURCE)
    search = {"PATH": f"{paths.BIN}:{search_path()}"}
    with report.step("containerd"):
        containerd.start(plane.processes, search, restrict_oom_score=not full_rights)
        containerd.load(StaticImage(PAUSE_IMAGE, paths.BIN / "pause", "/pause"))
    with report.step("kubelet, kube-proxy"):
        _start_kubelet(plane, search, full_rights=full_rights)
        _start_kube_proxy(plane, search)
    with report.step("node is ready"):
        _wait_for_node(plane)


def _start_kubelet(plane: ClusterControlPlane, environment: dict[str, str], *, full_rights: bool) -> None:
    authority = Authority(plane.directory / "pki", "daybreak")
    server = authority.issue(
        "kubelet-server", f"kubelet-{kubelet.NAME}", hosts=[kubelet.NAME, network.NODE_ADDRESS]
    )
    kubeconfig = plane.directory / "kubelet.kubeconfig"
    plane.write_kubeconfig(kubeconfig, f"system:node:{kubelet.NAME}", ["system:nodes"])
    config = plane.directory / "kubelet.json"
    resolv_conf = kubelet.resolv_conf()
    content = kubelet.kubelet_config(
        authority.pair.certificate, server.certificate, server.key, resolv_conf, full_rights=full_rights
    )
    mark = files.write(config, content)
    paths.KUBELET_ROOT.mkdir(parents=True, exist_ok=True)
    command = kubelet.kubelet(paths.BIN / kubelet.KUBELET, config, kubeconfig)
    plane.processes.start(kubelet.KUBELET, command, {**environment, **mark})


def _start_kube_proxy(plane: ClusterControlPlane, environment: dict[str, str]) -> None:
    kubeconfig = plane.directory / "kube-proxy.kubeconfig"
    plane.write_kubeconfig(kubeconfig, "system:kube-proxy", [])
    config = plane.directory / "kube-proxy.json"
    mark = files.write(config, kubelet.kube_proxy_config(kubeconfig))
    command = kubelet.kube_proxy(paths.BIN / kubelet.KUBE_PROXY, config)
    plane.processes.start(kubelet.KUBE_PROXY, command, {**environment, **mark})


def _wait_for_node(plane: ClusterControlPlane) -> None:
    deadline = time.monotonic() + _NODE_SECONDS
    jsonpath = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"
    while plane.kubectl("get", "node", kubelet.NAME, "--ignore-not-found", "-o", jsonpath) != "True":
        for name in (kubelet.KUBELET, kubelet.KUBE_PROXY, containerd.NAME):
            plane.processes.check(name)
        if time.monotonic() > deadline:
            why = plane.kubectl(
                "get",
                "node",
                kubelet.NAME,
                "--ignore-not-found",
                "-o",
                "jsonpath={.status.conditions[?(@.type=='Ready')].message}",
            )
            raise ClusterError(
                f"the node is not ready after {_NODE_SECONDS:.0f} s: {why or 'it did not register'}"
            )
        time.sleep(0.5)


def _start_addons(plane: ClusterControlPlane, report: Report) -> None:
    with report.step("CoreDNS"):
        upstream = bool(kubelet.name_servers(kubelet.resolv_conf().read_text()))
        _install(plane, addons.coredns_image(), addons.coredns(upstream))
    with report.step("KubeRay"):
        _install(plane, addons.kuberay_image(), addons.kuberay())


def _install(plane: ClusterControlPlane, image: StaticImage, addon: Addon) -> None:
    containerd.load(image)
    _apply(plane, addon)
    _roll_out(plane, addon)


def _apply(plane: ClusterControlPlane, addon: Addon) -> None:
    """Apply the addon unless the same manifests were applied and its objects still exist."""
    digest = hashlib.sha256(addon.manifests.encode()).hexdigest()
    note = plane.directory / "manifests" / f"{addon.deployment}.applied"
    if note.exists() and note.read_text() == digest:
        get = ("get", "--ignore-not-found", "-o", "name")
        found = plane.kubectl(*get, *addon.cluster_objects)
        deployment = plane.kubectl(*get, "-n", addon.namespace, f"deployment/{addon.deployment}")
        if deployment and len(found.split()) == len(addon.cluster_objects):
            return
    plane.apply(addon.manifests)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(digest)


def _roll_out(plane: ClusterControlPlane, addon: Addon) -> None:
    where = ("-n", addon.namespace)
    try:
        plane.kubectl(
            "rollout", "status", f"deployment/{addon.deployment}", *where, "--timeout=180s", timeout=200
        )
    except ClusterError:
        events = plane.kubectl(
            "get", "events", *where, "--sort-by=.lastTimestamp", "-o", "custom-columns=M:.message"
        )
        last = events.strip().splitlines()[-1]
        raise ClusterError(f"{addon.deployment} does not become ready: {last}") from None
