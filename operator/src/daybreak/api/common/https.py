"""HTTPS URLs of hosts with DNS names."""

from urllib.parse import urlsplit

_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
HTTPS_URL = rf"^https://({_LABEL}\.)+[a-z]([-a-z0-9]{{0,61}}[a-z0-9])?(:[0-9]{{1,5}})?(/[A-Za-z0-9_.-]+)*/?$"
"""Pattern of an HTTPS URL with a DNS name. IP addresses are invalid, because an address could belong to
anyone, regardless of its certificate."""
HTTPS_PORT = 443


def host_of(url: str) -> str:
    """Return the host of a URL."""
    return urlsplit(url).hostname or ""


def port_of(url: str) -> int:
    """Return the port of a URL, or 0 if the port is invalid."""
    try:
        return urlsplit(url).port or HTTPS_PORT
    except ValueError:
        return 0
