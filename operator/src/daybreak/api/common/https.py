"""HTTPS URLs of hosts by their DNS names."""

from urllib.parse import urlsplit

_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
HTTPS_URL = rf"^https://({_LABEL}\.)+[a-z]([-a-z0-9]{{0,61}}[a-z0-9])?(:[0-9]{{1,5}})?(/[A-Za-z0-9_.-]+)*/?$"
"""HTTPS and a DNS name. An address is none: it would be anybody's, whatever its certificate says."""
HTTPS_PORT = 443


def host_of(url: str) -> str:
    """The host of a URL."""
    return urlsplit(url).hostname or ""


def port_of(url: str) -> int:
    """The port of a URL; 0: there is no such port."""
    try:
        return urlsplit(url).port or HTTPS_PORT
    except ValueError:
        return 0
