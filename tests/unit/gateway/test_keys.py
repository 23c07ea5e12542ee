"""API keys as the kubelet mounts them; HAProxy gets their digests."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from daybreak.gateway.hold.keys import NOBODY, ApiKey, KeyFiles


def manifest(*references: tuple[str, str]) -> dict[str, Any]:
    keys = [{"secretRef": {"name": secret, "key": key}} for secret, key in references]
    return {"spec": {"access": {"apiKeys": keys}}}


def test_key_list_is_empty_if_spec_has_no_keys(tmp_path: Path) -> None:
    assert KeyFiles(tmp_path).keys({"spec": {}}) == ()
    assert KeyFiles(tmp_path).keys(manifest()) == ()


def test_key_is_read_as_its_digest(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "a").write_text("sk-one\n")
    (tmp_path / "team" / "b").write_text("sk-two")
    found = KeyFiles(tmp_path).keys(manifest(("team", "a"), ("team", "b"), ("team", "a")))
    one, two = (hashlib.sha256(key).hexdigest() for key in (b"sk-one", b"sk-two"))
    assert found == (ApiKey("team/a", one), ApiKey("team/b", two))


def test_key_has_models_expiry_and_limits_of_spec(tmp_path: Path) -> None:
    entry = {
        "name": "research",
        "expires": "2030-01-31T01:00:00+01:00",
        "models": ["a", "a:adapter"],
        "limits": {"requestsPerMinute": 60, "maxInFlight": 5, "maxHeld": 0},
        "secretRef": {"name": "team", "key": "a"},
    }
    [key] = KeyFiles(tmp_path).keys({"spec": {"access": {"apiKeys": [entry]}}})
    assert key == ApiKey("research", NOBODY, 1896048000, ("a", "a:adapter"), 60, 5, 0)
    assert key.word == f"research:{NOBODY}:1896048000:60:5:0:a+a%3Aadapter"
    assert key.may_ask("a", 1896047999)
    assert not key.may_ask("a", 1896048000)
    assert not key.may_ask("b", 0)
    # A key with an unreadable date gives no access.
    [key] = KeyFiles(tmp_path).keys({"spec": {"access": {"apiKeys": [entry | {"expires": "soon"}]}}})
    assert not key.may_ask("a", 2)


@pytest.mark.parametrize(
    "reference", [("gone", "a"), ("team", "gone"), ("team", "empty"), ("..", "a"), ("", "")]
)
def test_unreadable_key_grants_no_access(tmp_path: Path, reference: tuple[str, str]) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "empty").write_text("\n")
    assert KeyFiles(tmp_path / "keys").keys(manifest(reference)) == (ApiKey("/".join(reference), NOBODY),)


def test_reference_outside_of_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "outside").write_text("sk")
    assert KeyFiles(tmp_path / "keys").keys(manifest(("..", "outside"))) == (ApiKey("../outside", NOBODY),)
    assert KeyFiles(tmp_path / "keys").keys(manifest(("a/../..", "outside"))) == (
        ApiKey("a/../../outside", NOBODY),
    )
