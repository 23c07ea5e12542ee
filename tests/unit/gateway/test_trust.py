"""Trust between HAProxies in each other's requests, and files of an attacker in place of the token."""

from pathlib import Path

import pytest

from daybreak.gateway.haproxy.trust import token


def test_token_is_stable_and_unreadable_to_others(tmp_path: Path) -> None:
    made = token(tmp_path)
    assert len(made) == 32
    assert token(tmp_path) == made
    assert (tmp_path / "token").stat().st_mode & 0o007 == 0


@pytest.mark.parametrize("secret", ["sk-of-somebody", "0" * 32])
def test_symlink_in_place_of_token_is_not_followed(tmp_path: Path, secret: str) -> None:
    (tmp_path / "key").write_text(secret)
    (tmp_path / "token").symlink_to(tmp_path / "key")
    made = token(tmp_path)
    assert made != secret
    assert len(made) == 32
    assert (tmp_path / "key").read_text() == secret
    assert token(tmp_path) == made


@pytest.mark.parametrize("message", ["", "short", "0" * 33, "0" * 31 + "\n", '"; lua-load evil'])
def test_invalid_token_is_replaced(tmp_path: Path, message: str) -> None:
    (tmp_path / "token").write_text(message)
    assert len(token(tmp_path)) == 32
    assert token(tmp_path) != message
