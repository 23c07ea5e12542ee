"""Release of the lease, against a fake API server."""

from typing import Any, cast

from daybreak.kube.client import Api
from daybreak.kube.errors import ApiError
from daybreak.kube.lease import RELEASE_TRIES, Lease


class PlayedApi:
    """Fake with one Lease. `late` renewals of the holder arrive between its read and its write."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.late = 0
        self.refused = 0

    async def find(self, *_: Any, **__: Any) -> dict[str, Any] | None:
        """Return the current lease."""
        found = self.lease
        if found is not None and self.late:
            self.late -= 1
            self._store(found)
        return found

    async def request(self, verb: str, *_: Any, body: dict[str, Any], **__: Any) -> dict[str, Any]:
        """Write the lease; an update needs the current version."""
        if self.lease is not None and body["metadata"].get("resourceVersion") != self._version:
            self.refused += 1
            raise ApiError(409, "Conflict", "the object has been modified")
        self._store(body)
        return body

    @property
    def holder(self) -> Any:
        """Return the holder of the lease."""
        return self.lease and self.lease["spec"]["holderIdentity"]

    @property
    def _version(self) -> str:
        return str(self.lease["metadata"]["resourceVersion"]) if self.lease else "0"

    def _store(self, body: dict[str, Any]) -> None:
        version = str(int(self._version) + 1)
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}


async def held(api: PlayedApi) -> Lease:
    lease = Lease(cast(Api, api), "default", "me")
    await lease.acquire()
    assert api.holder == "me"
    return lease


async def test_late_renewal_does_not_keep_released_lease() -> None:
    api = PlayedApi()
    lease = await held(api)
    api.late = 1
    await lease.release()
    assert (api.holder, api.refused) == ("", 1)


async def test_release_ends_after_maximum_tries() -> None:
    api = PlayedApi()
    lease = await held(api)
    api.late = 100
    await lease.release()
    assert (api.holder, api.refused) == ("me", RELEASE_TRIES)
    assert not lease.held
