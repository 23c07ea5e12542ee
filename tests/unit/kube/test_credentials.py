"""A pod's service account, from the files and variables that Kubernetes provides."""

from pathlib import Path

import pytest

from daybreak.kube.credentials import FOLDER, InCluster, NoCredentials

ADDRESS = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ca.crt").write_text("a certificate")
    (tmp_path / "token").write_text("first\n")
    return tmp_path


def read(folder: Path, **more: str) -> InCluster:
    return InCluster.from_environment({**ADDRESS, FOLDER: str(folder), **more})


async def test_service_account_is_read_from_folder_and_environment(folder: Path) -> None:
    found = read(folder)
    assert (found.host, found.ssl_ca_cert) == ("https://10.0.0.1:443", str(folder / "ca.crt"))
    desired = {"BearerToken": {"key": "authorization", "value": "Bearer first"}}
    assert await found.auth_settings() == desired
    assert "first" not in repr(found)


def test_ipv6_address_is_bracketed_in_host(folder: Path) -> None:
    assert read(folder, KUBERNETES_SERVICE_HOST="fd00::1").host == "https://[fd00::1]:443"


def test_changed_token_is_read_after_one_minute(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("daybreak.kube.credentials.time.monotonic", lambda: now[0])
    found = read(folder)
    (folder / "token").write_text("two")
    now[0] += 59
    assert found.token() == "first"
    now[0] += 2
    assert found.token() == "two"
    # While Kubernetes replaces the token, the file may be missing for a moment.
    (folder / "token").unlink()
    now[0] += 61
    assert found.token() == "two"


@pytest.mark.parametrize("missing", ["ca.crt", "token"])
@pytest.mark.parametrize("how", ["gone", "empty"])
def test_missing_or_empty_file_is_rejected_with_its_name(folder: Path, missing: str, how: str) -> None:
    if how == "gone":
        (folder / missing).unlink()
    else:
        (folder / missing).write_text("")
    with pytest.raises(NoCredentials, match=missing):
        read(folder)


@pytest.mark.parametrize("missing", sorted(ADDRESS))
def test_missing_address_variable_is_rejected_with_its_name(folder: Path, missing: str) -> None:
    with pytest.raises(NoCredentials, match=missing):
        read(folder, **{missing: ""})
