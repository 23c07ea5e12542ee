"""Questions over HTTP to programs in pods, from which nothing good can be taken for granted."""

import aiohttp

CONNECTIONS = 32
"""Questions at the same time, over all pods."""
PATIENCE_SECONDS = 5.0
"""How long an answer may take."""


class PodClient:
    """Reads what programs in pods say of themselves."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def get(self, address: str, port: int, path: str, most: int) -> bytes | None:
        """The content at a path, or None when there is no whole answer with status 200.

        Args:
            address: IP of the pod.
            port: Port there.
            path: Path with its query.
            most: Longest content in bytes.
        """
        host = f"[{address}]" if ":" in address else address
        limits = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
        try:
            # A redirect could lead anywhere, with the operator's network rights.
            async with self._opened().get(
                f"http://{host}:{port}{path}", allow_redirects=False, timeout=limits
            ) as response:
                content = await response.content.read(most)
                return content if response.status == 200 and response.content.at_eof() else None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError):
            return None

    async def close(self) -> None:
        """Close what is open."""
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            # A new connection for each question: an old one may still lead to the pod before.
            connector = aiohttp.TCPConnector(force_close=True, limit=CONNECTIONS)
            self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._session
