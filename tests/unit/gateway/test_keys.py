"""API keys as the kubelet mounts them, told to HAProxy as digests."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from daybreak.gateway.hold.keys import NOBODY, KeyFiles


def manifest(*references: tuple[str, str]) -> dict[str, Any]:
    keys = [{"secretRef": {"name": secret, "key": key}} for secret, key in references]
    return {"spec": {"access": {"apiKeys": keys}}}


def test_no_keys_is_open(tmp_path: Path) -> None:
    assert KeyFiles(tmp_path).digests({"spec": {}}) == ()
    assert KeyFiles(tmp_path).digests(manifest()) == ()


def test_a_key_is_told_as_its_digest(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "a").write_text("sk-one\n")
    (tmp_path / "team" / "b").write_text("sk-two")
    found = KeyFiles(tmp_path).digests(manifest(("team", "a"), ("team", "b"), ("team", "a")))
    assert found == tuple(sorted(hashlib.sha256(key).hexdigest() for key in (b"sk-one", b"sk-two")))


@pytest.mark.parametrize(
    "reference", [("gone", "a"), ("team", "gone"), ("team", "empty"), ("..", "a"), ("", "")]
)
def test_what_cannot_be_read_opens_for_nobody(tmp_path: Path, reference: tuple[str, str]) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "empty").write_text("\n")
    assert KeyFiles(tmp_path / "keys").digests(manifest(reference)) == (NOBODY,)


def test_a_reference_does_not_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "outside").write_text("sk")
    assert KeyFiles(tmp_path / "keys").digests(manifest(("..", "outside"))) == (NOBODY,)
    assert KeyFiles(tmp_path / "keys").digests(manifest(("a/../..", "outside"))) == (NOBODY,)
