"""Network of the node: a bridge with its address, packet filter tables, and the pods' CNI configuration.

All addresses are from 198.18.0.0/15, which is reserved for benchmarks (RFC 2544) and not routed by any
network: pods 198.18.0.0/17, node 198.18.255.1, services 198.19.0.0/16.

The CNI plugin `ptp` connects pods to the node: each pod has its own pair of devices, and the node routes
every packet between two pods. Services therefore work without the kernel's bridge filter. **NetworkPolicy is
not enforced** by this network, and `hostPort` is not offered.
"""

import contextlib
import json
import shutil
from pathlib import Path

from cluster import paths
from cluster.errors import ClusterError
from cluster.tools import files
from cluster.tools.programs import run, search_path

BRIDGE = "kube0"
NODE_ADDRESS = "198.18.255.1"
POD_RANGE = "198.18.0.0/17"
ALL_RANGES = "198.18.0.0/15"
_TABLE = "daybreak"
_PROXY_TABLE = "kube-proxy"
_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")


def other_owner() -> Path | None:
    """Return the `.daybreak` of another checkout whose cluster runs on this machine, or None.

    Raises:
        ClusterError: The bridge exists and has no owner.
    """
    owner = _owner()
    if owner == "":
        raise ClusterError(f"a device {BRIDGE} exists that is not ours: remove it (ip link delete {BRIDGE})")
    return None if owner in (None, str(paths.DAYBREAK)) else Path(owner)


def create() -> None:
    """Create the bridge, enable packet forwarding, and let pods reach other networks by the node's IP."""
    if _owner() is None:
        run(["ip", "link", "add", BRIDGE, "type", "bridge"])
        # The alias names the owner, for another checkout on this machine.
        run(["ip", "link", "set", BRIDGE, "alias", str(paths.DAYBREAK)])
    run(["ip", "address", "replace", f"{NODE_ADDRESS}/32", "dev", BRIDGE])
    run(["ip", "link", "set", BRIDGE, "up"])
    _FORWARD.write_text("1")
    run(["nft", "-f", "-"], stdin=masquerade())
    files.write(paths.CNI_CONFIG / "10-daybreak.conflist", json.dumps(cni_config(paths.CNI_DATA), indent=2))


def masquerade() -> str:
    """Return nft rules that give packets of pods to external addresses the node's source address."""
    return (
        f"table ip {_TABLE}\n"
        f"delete table ip {_TABLE}\n"
        f"table ip {_TABLE} {{\n"
        "  chain postrouting {\n"
        "    type nat hook postrouting priority srcnat + 10; policy accept;\n"
        f"    ip saddr {POD_RANGE} ip daddr != {ALL_RANGES} masquerade\n"
        "  }\n"
        "}\n"
    )


def cni_config(data: Path) -> dict[str, object]:
    """Return the CNI configuration list; `data` is the folder with the allocated addresses."""
    addresses = {
        "type": "host-local",
        "dataDir": str(data),
        "ranges": [[{"subnet": POD_RANGE}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {"cniVersion": "1.0.0", "name": "daybreak", "plugins": [{"type": "ptp", "ipam": addresses}]}


def remove() -> None:
    """Remove the packet filter tables and the bridge."""
    if shutil.which("nft", path=search_path()):
        for family, table in (("ip", _TABLE), ("ip", _PROXY_TABLE), ("ip6", _PROXY_TABLE)):
            with contextlib.suppress(ClusterError):  # the table may never have been created
                run(["nft", "delete", "table", family, table])
    if shutil.which("ip", path=search_path()) and _owner() is not None:
        run(["ip", "link", "delete", BRIDGE])


def _owner() -> str | None:
    """Return the `.daybreak` of the bridge's cluster, "" for a foreign bridge, or None without a bridge."""
    device = Path("/sys/class/net") / BRIDGE
    return (device / "ifalias").read_text().strip() if device.exists() else None
