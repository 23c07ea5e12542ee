"""Command lines of etcd and Kubernetes' servers, as pure functions for both kinds of cluster."""

import json
from dataclasses import dataclass
from pathlib import Path

from cluster.control_plane.certs import Pair

SERVICE_RANGE = "198.19.0.0/16"
"""Address range of Services, in 198.18.0.0/15: reserved for benchmarks (RFC 2544), routed by no network."""
API_SERVICE = "198.19.0.1"
"""First address of `SERVICE_RANGE`: the Service `kubernetes`, included in the API server's certificate."""


@dataclass(frozen=True)
class Ports:
    """TCP ports of a control plane."""

    apiserver: int
    etcd: int
    etcd_peers: int
    controller_manager: int
    scheduler: int
    kwok: int
    etcd_http: int


@dataclass(frozen=True)
class Credentials:
    """Certificates of a control plane."""

    authority: Pair
    etcd_authority: Pair
    etcd_server: Pair
    etcd_client: Pair
    apiserver: Pair
    kubelet_client: Pair
    service_accounts: Pair


def etcd(binary: Path, data: Path, ports: Ports, credentials: Credentials) -> list[str]:
    """Return the command of one etcd on loopback.

    etcd does not wait for the disk (`--unsafe-no-fsync`): after a crash of the machine, the cluster is
    deleted and not restored. On a slow disk, those waits make the API server slow. Health and metrics have a
    separate port: with a shared port, gRPC uses Go's HTTP server, which costs a fifth of etcd's CPU time.
    """
    client, peer = f"https://127.0.0.1:{ports.etcd}", f"http://127.0.0.1:{ports.etcd_peers}"
    return [
        str(binary),
        "--name=daybreak",
        f"--data-dir={data}",
        f"--listen-client-urls={client}",
        f"--listen-client-http-urls=https://127.0.0.1:{ports.etcd_http}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=daybreak={peer}",
        f"--trusted-ca-file={credentials.etcd_authority.certificate}",
        f"--cert-file={credentials.etcd_server.certificate}",
        f"--key-file={credentials.etcd_server.key}",
        "--client-cert-auth",
        "--unsafe-no-fsync",
        "--auto-compaction-mode=periodic",
        "--auto-compaction-retention=30m",
        "--quota-backend-bytes=4294967296",
        "--log-level=warn",
    ]


def apiserver(
    binary: Path, address: str, ports: Ports, credentials: Credentials, *, service_accounts: bool, nodes: bool
) -> list[str]:
    """Return the command of the API server.

    Args:
        binary: kube-apiserver.
        address: Address to listen on and to announce.
        ports: Ports of the control plane.
        credentials: Certificates of the control plane.
        service_accounts: True if a controller manager creates the default service account of each namespace.
            Otherwise, the API server must admit pods that name no service account.
        nodes: True if kubelets serve logs and pods can reach the Service `kubernetes`.
    """
    command = [
        str(binary),
        f"--bind-address={address}",
        f"--advertise-address={address}",
        f"--secure-port={ports.apiserver}",
        f"--etcd-servers=https://127.0.0.1:{ports.etcd}",
        f"--etcd-cafile={credentials.etcd_authority.certificate}",
        f"--etcd-certfile={credentials.etcd_client.certificate}",
        f"--etcd-keyfile={credentials.etcd_client.key}",
        f"--client-ca-file={credentials.authority.certificate}",
        f"--tls-cert-file={credentials.apiserver.certificate}",
        f"--tls-private-key-file={credentials.apiserver.key}",
        f"--kubelet-client-certificate={credentials.kubelet_client.certificate}",
        f"--kubelet-client-key={credentials.kubelet_client.key}",
        f"--kubelet-certificate-authority={credentials.authority.certificate}",
        # No DNS server knows the name of the node.
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={credentials.service_accounts.certificate}",
        f"--service-account-signing-key-file={credentials.service_accounts.key}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--profiling=false",
        "--v=1",
    ]
    if not service_accounts:
        command.append("--disable-admission-plugins=ServiceAccount")
    if not nodes:
        command.append("--endpoint-reconciler-type=none")
    return command


def controller_manager(binary: Path, kubeconfig: Path, ports: Ports, credentials: Credentials) -> list[str]:
    """Return the command of the controller manager.

    It runs garbage collection, namespaces, deployments, jobs, endpoints and service accounts.
    """
    return [
        str(binary),
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={ports.controller_manager}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--root-ca-file={credentials.authority.certificate}",
        f"--service-account-private-key-file={credentials.service_accounts.key}",
        f"--cluster-signing-cert-file={credentials.authority.certificate}",
        f"--cluster-signing-key-file={credentials.authority.key}",
        "--profiling=false",
        "--v=1",
    ]


def scheduler_settings(kubeconfig: Path, longest_backoff: int) -> str:
    """Return the scheduler's configuration file, for settings that differ from the defaults.

    Args:
        kubeconfig: User and API server. With a configuration file, the scheduler ignores `--kubeconfig`.
        longest_backoff: Maximum wait before the scheduler tries a pod again, in seconds.
    """
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "leaderElection": {"leaderElect": False},
            "podMaxBackoffSeconds": longest_backoff,
        }
    )


def scheduler(binary: Path, kubeconfig: Path, ports: Ports, settings: Path | None = None) -> list[str]:
    """Return the command of the scheduler, with its default settings or with a configuration file."""
    return [
        str(binary),
        f"--kubeconfig={kubeconfig}" if settings is None else f"--config={settings}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={ports.scheduler}",
        "--leader-elect=false",
        "--profiling=false",
        "--v=1",
    ]


def kwok(binary: Path, kubeconfig: Path, stages: Path, ports: Ports, selector: str, pods: str) -> list[str]:
    """Return the command of kwok, which simulates the kubelet of fake nodes.

    The fake nodes carry the annotation `selector` (key=value). Their pods get addresses of the range `pods`.
    """
    return [
        str(binary),
        f"--kubeconfig={kubeconfig}",
        f"--config={stages}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={selector}",
        f"--server-address=127.0.0.1:{ports.kwok}",
        f"--cidr={pods}",
        "--node-ip=198.18.255.2",
        "--node-lease-duration-seconds=40",
    ]
