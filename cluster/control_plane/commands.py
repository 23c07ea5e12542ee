"""Command lines of etcd and of Kubernetes' servers: pure functions, the same for both kinds of cluster."""

import json
from dataclasses import dataclass
from pathlib import Path

from cluster.control_plane.certs import Pair

SERVICE_RANGE = "198.19.0.0/16"
"""Addresses of Services. 198.18.0.0/15 is reserved for benchmarks (RFC 2544) and routed nowhere."""
API_SERVICE = "198.19.0.1"
"""The first address of `SERVICE_RANGE`: the Service `kubernetes`, in the API server's certificate."""


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
    """One etcd on loopback.

    It does not wait for the disk (`--unsafe-no-fsync`): the cluster is thrown away, not restored, after a
    crash of the machine, and on a slow disk those waits are what makes the API server slow. Its health and
    metrics have a port of their own: one port for both makes gRPC go through Go's HTTP server, which costs a
    fifth of etcd's processor time.
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
    """The API server.

    Args:
        binary: kube-apiserver.
        address: Address to listen on and to announce.
        ports: Ports of the control plane.
        credentials: Certificates of the control plane.
        service_accounts: Whether a controller manager gives each namespace its default service account;
            without one, pods that ask for none must be let through all the same.
        nodes: Whether there are kubelets to ask for logs, and a Service `kubernetes` that pods can reach.
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
        # The node has no name that any DNS server knows.
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
    """The controller manager: garbage collection, namespaces, deployments, jobs, endpoints, service
    accounts.
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
    """The scheduler's configuration file, where not all of its settings are the default ones.

    Args:
        kubeconfig: Whom it runs as, and where; with a file the scheduler does not read that option.
        longest_backoff: Seconds that it waits at most before it tries a pod again.
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
    """The scheduler, with its default settings or with those of a file."""
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
    """kwok, which plays the kubelet of the nodes that carry the annotation `selector` (key=value), and gives
    their pods addresses of the range `pods`."""
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
