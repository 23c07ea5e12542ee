"""Kubelet and kube-proxy of the one real node."""

import json
from collections.abc import Sequence
from pathlib import Path

from cluster import paths
from cluster.node import cgroups
from cluster.node.network import NODE_ADDRESS, POD_RANGE

NAME = "daybreak"
"""Name of the node."""
KUBELET, KUBE_PROXY = "kubelet", "kube-proxy"
DNS_ADDRESS = "198.19.0.10"
"""Address of the Service `kube-dns`."""
DOMAIN = "cluster.local"
_RESOLV_CONF = (Path("/run/systemd/resolve/resolv.conf"), Path("/etc/resolv.conf"))


def kubelet_config(
    authority: Path, certificate: Path, key: Path, resolv_conf: Path, *, full_rights: bool
) -> str:
    """Return the kubelet's configuration.

    Args:
        authority: Certificate that signed the API server's client certificate.
        certificate: Server certificate of the kubelet.
        key: Key of the server certificate.
        resolv_conf: File for pods with `dnsPolicy: Default`, CoreDNS among them.
        full_rights: True if the machine gives root CAP_SYS_RESOURCE. Without it, some kernel settings cannot
            be changed, and the kubelet must tolerate that, as in a user namespace.
    """
    config: dict[str, object] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(certificate),
        "tlsPrivateKeyFile": str(key),
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": DOMAIN,
        "resolvConf": str(resolv_conf),
        "containerRuntimeEndpoint": f"unix://{paths.CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": cgroups.ROOT,
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "podLogsDir": str(paths.POD_LOGS),
        "volumePluginDir": str(paths.KUBELET_ROOT / "volume-plugins"),
        "maxPods": 200,
        # Images come from no registry: a collected image could not be pulled again. 100 disables collection.
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "evictionHard": {
            "memory.available": "200Mi",
            "nodefs.available": "1Gi",
            "imagefs.available": "1Gi",
            "nodefs.inodesFree": "1%",
            "imagefs.inodesFree": "1%",
        },
    }
    if not full_rights:
        config |= {"featureGates": {"KubeletInUserNamespace": True}, "oomScoreAdj": 0}
    return json.dumps(config, indent=2)


def kubelet(binary: Path, config: Path, kubeconfig: Path) -> list[str]:
    """Return the command line of the kubelet."""
    return [
        str(binary),
        f"--config={config}",
        f"--kubeconfig={kubeconfig}",
        f"--root-dir={paths.KUBELET_ROOT}",
        f"--hostname-override={NAME}",
        f"--node-ip={NODE_ADDRESS}",
        "--v=1",
    ]


def kube_proxy_config(kubeconfig: Path) -> str:
    """Return kube-proxy's configuration with nftables, which needs no dedicated kernel module."""
    return json.dumps(
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "clusterCIDR": POD_RANGE,
            "hostnameOverride": NAME,
            "bindAddress": NODE_ADDRESS,
            "healthzBindAddress": f"{NODE_ADDRESS}:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            # Connection tracking is sized by the machine's owner.
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
            "nodePortAddresses": ["primary"],
        },
        indent=2,
    )


def kube_proxy(binary: Path, config: Path) -> list[str]:
    """Return the command line of kube-proxy."""
    return [str(binary), f"--config={config}", "--v=1"]


def resolv_conf(candidates: Sequence[Path] = _RESOLV_CONF) -> Path:
    """Return the first file with name servers that a pod can reach: none on the machine's loopback."""
    for file in candidates:
        if file.exists() and name_servers(file.read_text()):
            return file
    return candidates[-1]


def name_servers(text: str) -> list[str]:
    """Parse the name servers of a resolv.conf, without those on loopback."""
    words = [line.split() for line in text.splitlines()]
    servers = [line[1] for line in words if len(line) > 1 and line[0] == "nameserver"]
    return [server for server in servers if not server.startswith("127.") and server != "::1"]
