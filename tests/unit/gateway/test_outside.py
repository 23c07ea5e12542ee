"""External models: their data from statuses, Secrets and name resolution."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from daybreak.gateway.hold.keys import KeyFiles
from daybreak.gateway.router import outside as module
from daybreak.gateway.router.outside import ExternalResolver, is_permitted_address, resolve

PEM = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----"
SAID = {
    "url": "https://api.example.com:8443/openai/v1/",
    "model": "big-model",
    "holdTimeout": "20s",
    "apiKeySecretRef": {"name": "account", "key": "key"},
    "caSecretRef": {"name": "account", "key": "ca"},
}


def route(**more: Any) -> dict[str, Any]:
    return {"metadata": {"name": "chat"}, "status": {"externalFallback": {**SAID, **more}}}


class Names:
    """A stub name server."""

    def __init__(self) -> None:
        self.addresses: list[str] = ["203.0.113.7"]
        self.requested = 0
        self.changed = 0

    async def resolve(self, host: str, port: int) -> list[str]:
        assert (host, port) == ("api.example.com", 8443)
        self.requested += 1
        if not self.addresses:
            raise OSError("no such name")
        return self.addresses

    def note(self) -> None:
        self.changed += 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "account").mkdir()
    (tmp_path / "account" / "key").write_text("sk-outside\n")
    (tmp_path / "account" / "ca").write_text(PEM)
    return tmp_path


@pytest.mark.parametrize(
    ("address", "may"),
    [
        ("203.0.113.7", True),
        ("10.0.0.7", True),
        ("2606:4700::1", True),
        ("127.0.0.1", False),
        ("::1", False),
        ("0.0.0.0", False),  # noqa: S104
        ("169.254.169.254", False),
        ("fe80::1", False),
        ("::ffff:169.254.169.254", False),
        ("64:ff9b::a9fe:a9fe", False),
        ("fd00:ec2::254", False),
        ("100.100.100.200", False),
        ("168.63.129.16", False),
        ("224.0.0.1", False),
    ],
)
def test_loopback_link_local_and_metadata_addresses_are_rejected(address: str, may: bool) -> None:
    assert is_permitted_address(address) is may


async def test_localhost_resolves_to_no_allowed_address() -> None:
    with pytest.raises(OSError, match="none of its addresses is allowed"):
        await resolve("localhost", 443)


async def test_external_model_is_available_after_its_name_is_resolved(folder: Path) -> None:
    names = Names()
    outside = ExternalResolver(KeyFiles(folder), names.note, names.resolve)
    assert outside.externals([route(), {"metadata": {"name": "other"}}]) == {}
    await asyncio.sleep(0.01)
    assert names.changed == 1
    (found,) = outside.externals([route()]).values()
    assert (found.route, found.host, found.port, found.path) == (
        "chat",
        "api.example.com",
        8443,
        "/openai/v1",
    )
    assert (found.address, found.model, found.after_ms) == ("203.0.113.7", "big-model", 20_000)
    assert (found.key, found.certificates) == ("sk-outside", (PEM,))
    assert "sk-outside" not in repr(found)
    assert names.requested == 1
    await outside.close()


async def test_external_address_is_kept_until_name_resolves_to_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FRESH_SECONDS", 0.0)
    names = Names()
    outside = ExternalResolver(KeyFiles(folder), names.note, names.resolve)

    async def address() -> str:
        outside.externals([route()])
        await asyncio.sleep(0.01)
        return next((each.address for each in outside.externals([route()]).values()), "")

    assert await address() == "203.0.113.7"
    names.addresses = ["203.0.113.8", "203.0.113.7"]
    assert await address() == "203.0.113.7", "one that is still right stays"
    names.addresses = []
    assert await address() == "203.0.113.7", "nor does it go with the name server"
    names.addresses = ["203.0.113.8"]
    assert await address() == "203.0.113.8"
    assert names.changed == 2
    await outside.close()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"url": "http://api.example.com/v1"}, "its URL cannot be used"),
        ({"url": "https://api.example.com:99999/v1"}, "its URL cannot be used"),
        ({"apiKeySecretRef": {"name": "gone", "key": "key"}}, "key key of Secret gone cannot be read"),
        ({"apiKeySecretRef": {"name": "..", "key": "key"}}, "cannot be read"),
        ({"caSecretRef": {"name": "account", "key": "key"}}, "no CA certificates"),
    ],
)
async def test_unusable_external_model_is_logged_once(
    more: dict[str, Any], why: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = Names()
    outside = ExternalResolver(KeyFiles(folder), names.note, names.resolve)
    for _ in range(3):
        assert outside.externals([route(**more)]) == {}
    message = capsys.readouterr().out
    assert message.count("External model is unavailable") == 1
    assert why in message
    await outside.close()


async def test_external_model_with_multiline_key_is_unavailable(folder: Path) -> None:
    (folder / "account" / "key").write_text("sk\nHost: other")
    names = Names()
    outside = ExternalResolver(KeyFiles(folder), names.note, names.resolve)
    assert outside.externals([route()]) == {}
    assert names.requested == 0
