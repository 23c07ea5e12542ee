"""Rules of NetworkPolicies for what every pod of ours needs to reach."""

from collections.abc import Sequence
from typing import Any


def to_cluster(api_server_ports: Sequence[int]) -> list[dict[str, Any]]:
    """DNS, and the API server.

    Neither has an address that a policy can name before it is known: any address, these ports.
    """
    dns = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    return [{"ports": dns}, {"ports": [{"protocol": "TCP", "port": port} for port in api_server_ports]}]
