"""Control plane: etcd and kube-apiserver, optionally controller manager, scheduler and fake nodes.

The API tests run against a control plane without nodes: it starts in seconds, and the number of concurrent
ones is limited only by ports.

    from cluster import ControlPlane, kuberay_crds

    with ControlPlane(directory, crds=[kuberay_crds()]) as plane:
        plane.kubectl("get", "namespaces")

`cluster.full` adds a real node. Without `controllers`, nothing is garbage-collected, namespaces are never
fully deleted, and service accounts have no tokens. Without `scheduler`, no pod is scheduled.
"""

import contextlib
import http.client
import shutil
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Self

from cluster import paths
from cluster.control_plane import commands, kubeconfig
from cluster.control_plane.certs import Authority, signing_key
from cluster.control_plane.fake_nodes import SELECTOR, FakeNode, manifests, stages
from cluster.errors import ClusterError
from cluster.tools import ports
from cluster.tools.processes import Processes, Record
from cluster.tools.programs import run

ETCD, APISERVER = "etcd", "kube-apiserver"
CONTROLLER_MANAGER, SCHEDULER, KWOK = "kube-controller-manager", "kube-scheduler", "kwok"
START_SECONDS = 120.0
"""Maximum time until a component is ready, in seconds.

A starved machine needs tens of seconds, a free one two to five.
"""
NOBODY = "198.18.192.0/18"
"""Addresses at which nothing answers."""

_GARBAGE = {"GOGC": "400"}
"""Garbage collection only after the heap has grown by four times the live data (Go's default: once).

This costs memory and saves CPU time; a machine that runs models has enough memory.
"""


class ControlPlane:
    """etcd and kube-apiserver in one directory, with free ports on loopback.

    Args:
        directory: Directory of certificates, data and logs. Existing files are reused, so a control plane can
            be stopped and started with its objects.
        controllers: Also run kube-controller-manager.
        scheduler: Also run kube-scheduler.
        longest_backoff: Maximum wait before the scheduler tries a pod again, in seconds. None uses the
            scheduler's default of ten.
        fake_nodes: Nodes to create and to let kwok simulate.
        fake_pods: Addresses that kwok writes into the status of their pods.
        crds: Files or folders of CustomResourceDefinitions to install.
        binaries: Folder with the programs.
    """

    def __init__(
        self,
        directory: Path,
        *,
        controllers: bool = False,
        scheduler: bool = False,
        longest_backoff: int | None = None,
        fake_nodes: Sequence[FakeNode] = (),
        fake_pods: str = NOBODY,
        crds: Sequence[Path] = (),
        binaries: Path = paths.BIN,
    ) -> None:
        self.directory = directory.resolve()
        self.kubeconfig = self.directory / "kubeconfig"
        """Kubeconfig of the administrator of this control plane."""
        self.processes = Processes(self.directory)
        self.address = "127.0.0.1"
        self.hosts: tuple[str, ...] = ()
        """Names and addresses for the API server's certificate, in addition to the standard ones."""
        self.nodes = False
        """True if kubelets join this control plane."""
        self._binaries = binaries
        self._controllers = controllers
        self._scheduler = scheduler
        self._longest_backoff = longest_backoff
        self._fake_nodes = tuple(fake_nodes)
        self._fake_pods = fake_pods
        self._crds = tuple(crds)
        self._prepared: tuple[commands.Ports, commands.Credentials] | None = None

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    @property
    def server(self) -> str:
        """Return the address of the API server, https://host:port."""
        return f"https://{self.address}:{self._ports.apiserver}"

    @property
    def apiserver(self) -> Record | None:
        """Return the API server's process, for its memory and CPU time, or None if it does not run."""
        return self.processes.get(APISERVER)

    def start(self) -> Self:
        """Start all components that do not run yet, and wait until they are ready."""
        self.prepare()
        self.start_etcd()
        self.start_apiserver()
        if self._crds:
            self.install_crds(self._crds)
        if self._controllers:
            self.start_controller_manager()
        if self._scheduler:
            self.start_scheduler()
        if self._fake_nodes:
            self.add_fake_nodes(self._fake_nodes)
        return self

    def stop(self, grace: float = 3.0) -> None:
        """Stop all processes, and kill those still running after `grace` seconds; the objects stay."""
        for name in reversed(self.processes.recorded()):
            self.processes.stop(name, grace)

    def remove(self) -> None:
        """Stop all processes and delete their files, and the directory if nothing else is in it."""
        self.stop(grace=0.0)
        ports.release(paths.PORTS, self.directory)
        for name in ("etcd", "pki", "run", "logs"):
            shutil.rmtree(self.directory / name, ignore_errors=True)
        for file in (*self.directory.glob("*kubeconfig"), self.directory / "scheduler.json"):
            file.unlink(missing_ok=True)  # two concurrent cleanups may meet here
        with contextlib.suppress(OSError):
            self.directory.rmdir()

    def prepare(self) -> None:
        """Create certificates, reserve ports and write the kubeconfigs."""
        self._prepared = self._allocate_ports(), self._credentials()
        self._write_kubeconfigs()

    def start_etcd(self) -> None:
        """Start etcd and wait until it is healthy."""
        command = commands.etcd(
            self._binary("etcd"), self.directory / "etcd", self._ports, self._certificates
        )
        self.processes.start(ETCD, command, _GARBAGE)
        tls = ssl.create_default_context(cafile=str(self._certificates.etcd_authority.certificate))
        client = self._certificates.etcd_client
        tls.load_cert_chain(client.certificate, client.key)
        self._wait(ETCD, lambda: _healthy("127.0.0.1", self._ports.etcd_http, "/health", tls))

    def start_apiserver(self) -> None:
        """Start the API server and wait until it is ready."""
        command = commands.apiserver(
            self._binary(APISERVER),
            self.address,
            self._ports,
            self._certificates,
            service_accounts=self._controllers,
            nodes=self.nodes,
        )
        self.processes.start(APISERVER, command, _GARBAGE)
        tls = ssl.create_default_context(cafile=str(self._certificates.authority.certificate))
        client = self._certificates.kubelet_client
        tls.load_cert_chain(client.certificate, client.key)
        self._wait(APISERVER, lambda: _healthy(self.address, self._ports.apiserver, "/readyz", tls))

    def stop_apiserver(self) -> None:
        """Kill the API server, as an outage does; `start_apiserver` starts it at the same address.

        A graceful end would first finish the requests and close the watches.
        """
        self.processes.stop(APISERVER, grace=0.0)

    def start_controller_manager(self) -> None:
        """Start kube-controller-manager and wait until namespaces have their default service account."""
        file = self.directory / "controller-manager.kubeconfig"
        binary = self._binary(CONTROLLER_MANAGER)
        self.processes.start(
            CONTROLLER_MANAGER,
            commands.controller_manager(binary, file, self._ports, self._certificates),
            _GARBAGE,
        )
        self._wait(CONTROLLER_MANAGER, lambda: self._exists("serviceaccount", "default"))

    def start_scheduler(self) -> None:
        """Start kube-scheduler."""
        file = self.directory / "scheduler.kubeconfig"
        settings = None
        if self._longest_backoff is not None:
            settings = self.directory / "scheduler.json"
            settings.write_text(commands.scheduler_settings(file, self._longest_backoff))
        command = commands.scheduler(self._binary(SCHEDULER), file, self._ports, settings)
        self.processes.start(SCHEDULER, command, _GARBAGE)

    def add_fake_nodes(self, nodes: Sequence[FakeNode]) -> None:
        """Create the nodes, and let kwok keep them ready and mark their pods as running."""
        binary = self._binary(KWOK)
        command = commands.kwok(
            binary, self.kubeconfig, stages(paths.SHARE), self._ports, SELECTOR, self._fake_pods
        )
        self.processes.start(KWOK, command)
        self.apply(manifests(nodes))
        names = [f"node/{node.name}" for node in nodes]
        self.kubectl("wait", "--for=condition=Ready", "--timeout=60s", *names)

    def install_crds(self, files: Sequence[Path]) -> None:
        """Install CustomResourceDefinitions from files or folders, and wait until they are served.

        All are applied in one call: after each definition, the API server rebuilds the description of its
        whole API in the background, and a rebuild includes the definitions that arrived in the meantime.
        """
        named = [word for file in files for word in ("-f", str(file))]
        # Server-side: KubeRay's definitions are too large for kubectl's annotation.
        self.kubectl("apply", "--server-side", "--force-conflicts", "--validate=false", *named)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                self.kubectl("wait", "--for=condition=Established", "--timeout=60s", *named)
            except ClusterError:
                # kubectl fails immediately on a definition that has no conditions yet.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def apply(self, manifest: str) -> None:
        """Apply objects (YAML or JSON text) by server-side apply."""
        self.kubectl(
            "apply", "--server-side", "--force-conflicts", "--validate=false", "-f", "-", stdin=manifest
        )

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout: float = 120.0) -> str:
        """Run kubectl as administrator and return its output, or raise an error with its message.

        Args:
            arguments: kubectl's arguments.
            stdin: Text for its standard input.
            timeout: Seconds until kubectl is killed.
        """
        command: list[str | Path] = [self._binary("kubectl"), f"--kubeconfig={self.kubeconfig}", *arguments]
        return run(command, stdin=stdin, timeout=timeout)

    @property
    def _ports(self) -> commands.Ports:
        return self._ready[0]

    @property
    def _certificates(self) -> commands.Credentials:
        return self._ready[1]

    @property
    def _ready(self) -> tuple[commands.Ports, commands.Credentials]:
        if self._prepared is None:
            raise ClusterError(f"the control plane in {self.directory} was not started")
        return self._prepared

    def _allocate_ports(self) -> commands.Ports:
        return commands.Ports(*ports.reserve(paths.PORTS, self.directory, len(fields(commands.Ports))))

    def _credentials(self) -> commands.Credentials:
        pki = self.directory / "pki"
        authority, etcd = Authority(pki, "daybreak"), Authority(pki / "etcd", "daybreak-etcd")
        services = [
            f"kubernetes{suffix}" for suffix in ("", ".default", ".default.svc", ".default.svc.cluster.local")
        ]
        hosts = ["localhost", "127.0.0.1", commands.API_SERVICE, *services, *self.hosts]
        return commands.Credentials(
            authority=authority.pair,
            etcd_authority=etcd.pair,
            etcd_server=etcd.issue("server", "etcd", hosts=["localhost", "127.0.0.1"]),
            etcd_client=etcd.issue("client", "kube-apiserver"),
            apiserver=authority.issue("apiserver", "kube-apiserver", hosts=hosts),
            kubelet_client=authority.issue("kubelet-client", "kube-apiserver", ["system:masters"]),
            service_accounts=signing_key(pki),
        )

    def _write_kubeconfigs(self) -> None:
        self.write_kubeconfig(self.kubeconfig, "daybreak-admin", ["system:masters"])
        for part in ("controller-manager", "scheduler"):
            self.write_kubeconfig(self.directory / f"{part}.kubeconfig", f"system:kube-{part}", [])

    def write_kubeconfig(self, file: Path, user: str, groups: Sequence[str]) -> None:
        """Write a kubeconfig for a user with these groups; tests use it for users with few permissions."""
        authority = Authority(self.directory / "pki", "daybreak")
        pair = authority.issue(user.replace(":", "-"), user, groups)
        kubeconfig.write(file, self.server, authority.pair.certificate, user, pair)

    def _binary(self, name: str) -> Path:
        binary = self._binaries / name
        if not binary.exists():
            raise ClusterError(f"{name} is not built: run `python -m cluster build` (PYTHONPATH=.)")
        return binary

    def _exists(self, *what: str) -> bool:
        try:
            return bool(self.kubectl("get", *what, "--ignore-not-found", "-o", "name"))
        except ClusterError:
            return False

    def _wait(self, name: str, ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            self.processes.check(name)
            if time.monotonic() > deadline:
                last = self.processes.last_line(name)
                raise ClusterError(f"{name} is not ready after {START_SECONDS:.0f} s: {last}")
            time.sleep(0.05)


def _healthy(host: str, port: int, path: str, tls: ssl.SSLContext) -> bool:
    connection = http.client.HTTPSConnection(host, port, context=tls, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
