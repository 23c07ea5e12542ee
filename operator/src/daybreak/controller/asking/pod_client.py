"""HTTP client for programs in pods, with untrusted answers."""

import aiohttp

CONNECTIONS = 32
"""Maximum number of concurrent requests over all pods."""
PATIENCE_SECONDS = 5.0
"""Maximum duration of a request in seconds."""


class PodClient:
    """Reads reports of programs in pods."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def get(self, address: str, port: int, path: str, most: int) -> bytes | None:
        """Return the content at a path, or None without a complete answer of status 200.

        Args:
            address: IP of the pod.
            port: Port of the pod.
            path: Path with its query.
            most: Maximum size of the content in bytes.
        """
        host = f"[{address}]" if ":" in address else address
        limits = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
        try:
            # A redirect could lead anywhere, with the operator's network access.
            async with self._opened().get(
                f"http://{host}:{port}{path}", allow_redirects=False, timeout=limits
            ) as response:
                content = await response.content.read(most)
                return content if response.status == 200 and response.content.at_eof() else None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None

    async def close(self) -> None:
        """Close open connections."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Each request opens a new connection: an old one may still lead to the previous pod.
            connector = aiohttp.TCPConnector(force_close=True, limit=CONNECTIONS)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session
