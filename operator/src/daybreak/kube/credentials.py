"""Address of the API server, and credentials of the operator.

In a pod, two small files hold them. The official client, which supports all features of kubeconfigs, takes 20
MiB, so it is loaded only if there is a kubeconfig.
"""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
FOLDER = "DAYBREAK_SERVICE_ACCOUNT_FOLDER"
"""Environment variable with the folder of the token and the certificate. Defaults to Kubernetes' standard
folder."""
TOKEN_SECONDS = 60.0
"""Time in seconds for which a read token is used. Kubernetes writes a new one long before it expires."""


class NoCredentials(Exception):
    """Missing credentials of a pod for the API server."""


class Configuration(Protocol):
    """Required part of the official client's `Configuration`, under the same names."""

    host: Any
    ssl_ca_cert: Any
    ca_cert_data: Any
    cert_file: Any
    key_file: Any
    verify_ssl: Any
    disable_strict_ssl_verification: Any
    tls_server_name: Any
    connection_pool_maxsize: Any
    proxy: Any
    proxy_headers: Any

    async def auth_settings(self) -> Any:
        """Return the credentials: `BearerToken` with the header's `key` and `value`, or an empty mapping."""


@dataclass
class InCluster:
    """Configuration with the service account of a pod."""

    host: str
    token_file: Path
    ssl_ca_cert: str
    ca_cert_data: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify_ssl: bool = True
    disable_strict_ssl_verification: bool = False
    tls_server_name: str | None = None
    connection_pool_maxsize: int = 100
    proxy: str | None = None
    proxy_headers: Mapping[str, str] | None = None
    _token: str = field(default="", repr=False)
    _read: float = float("-inf")
    """Time at which the token was read, on the monotonic clock."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "InCluster":
        """Read the environment and the files. Raise NoCredentials if one is missing."""
        folder = Path(environment.get(FOLDER) or SERVICE_ACCOUNT)
        host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
        if not host or not port:
            raise NoCredentials("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must both be set")
        certificate = folder / "ca.crt"
        if not certificate.is_file() or not certificate.stat().st_size:
            raise NoCredentials(f"{certificate} is missing or empty: the API server cannot be known by it")
        joined = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        found = cls(f"https://{joined}", folder / "token", str(certificate))
        found.token()
        return found

    def token(self) -> str:
        """Return the token, read again every minute. Raise NoCredentials if there never was one."""
        if time.monotonic() - self._read >= TOKEN_SECONDS:
            try:
                self._token = self.token_file.read_text().strip() or self._token
            except OSError as error:
                if not self._token:
                    raise NoCredentials(f"the token cannot be read: {error}") from error
            if not self._token:
                raise NoCredentials(f"{self.token_file} is empty")
            self._read = time.monotonic()
        return self._token

    async def auth_settings(self) -> Mapping[str, Mapping[str, str]]:
        """Return the token in the format of the official client."""
        return {"BearerToken": {"key": "authorization", "value": f"Bearer {self.token()}"}}


def in_cluster() -> bool:
    """Return True if this process runs in a pod with a service account."""
    return "KUBERNETES_SERVICE_HOST" in os.environ and "KUBECONFIG" not in os.environ


async def configured() -> Configuration:
    """Return the configuration of a pod's service account, or of the kubeconfig (`$KUBECONFIG`).

    Raises:
        NoCredentials: The pod has no credentials.
    """
    if in_cluster():
        return InCluster.from_environment()
    from kubernetes.aio.client import Configuration as Official
    from kubernetes.aio.config import load_kube_config

    configuration = Official()
    # The library reads $KUBECONFIG at its import, which may be long ago in a forked process.
    await load_kube_config(  # type: ignore[no-untyped-call]
        os.environ.get("KUBECONFIG"), client_configuration=configuration, persist_config=False
    )
    return configuration
