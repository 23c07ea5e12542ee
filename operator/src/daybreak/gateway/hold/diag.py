"""Kernel query for the state of one connection (sock_diag over netlink).

The query reads no list and takes microseconds.
"""

import socket
import struct
from ipaddress import IPv6Address, ip_address

ESTABLISHED = 1
"""State of a connection that both ends have open. A connection that the client has closed has state 8."""

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_NLMSG_ERROR = 2
_ENOENT = -2
_HEADER = struct.Struct("=IHHII")
_NO_COOKIE = 0xFFFFFFFF


def _packed(address: str) -> tuple[socket.AddressFamily, bytes]:
    found = ip_address(address)
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is None:
            return socket.AF_INET6, found.packed
        found = found.ipv4_mapped
    return socket.AF_INET, found.packed.ljust(16, b"\0")


class SockDiag:
    """Client of sock_diag that queries connections one by one."""

    def __init__(self) -> None:
        """Open the socket. Raises OSError if the kernel does not permit it."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG)
        self._socket.settimeout(1)

    def close(self) -> None:
        """Close the netlink socket."""
        self._socket.close()

    def state(self, far: tuple[str, int], here: tuple[str, int]) -> int:
        """Return the state of the connection between two endpoints, or 0 if there is none. Raises OSError."""
        family, there = _packed(far[0])
        _, ours = _packed(here[0])
        question = (
            struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF)
            + struct.pack("!HH", here[1], far[1])
            + ours
            + there
            + struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
        )
        size = _HEADER.size + len(question)
        self._socket.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0) + question)
        answer = self._socket.recv(8192)
        if _HEADER.unpack_from(answer)[1] == _NLMSG_ERROR:
            (error,) = struct.unpack_from("=i", answer, _HEADER.size)
            if error != _ENOENT:
                raise OSError(-error, "the kernel does not report connections")
            return 0
        return answer[_HEADER.size + 1]
