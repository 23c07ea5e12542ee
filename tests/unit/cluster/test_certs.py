"""Certificates, verified by the TLS library that uses them."""

import datetime
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.verification import (
    ClientVerifier,
    PolicyBuilder,
    ServerVerifier,
    Store,
    VerificationError,
)

from cluster.control_plane.certs import Authority, Pair, signing_key


def _load(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate.read_bytes())


def _policy(authority: Authority) -> PolicyBuilder:
    return PolicyBuilder().store(Store([_load(authority.pair)]))


def _server(authority: Authority, name: str) -> ServerVerifier:
    return _policy(authority).build_server_verifier(x509.DNSName(name))


def _client(authority: Authority) -> ClientVerifier:
    return _policy(authority).build_client_verifier()


def test_a_server_is_trusted_for_its_own_names_only(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    certificate = _load(authority.issue("server", "server", hosts=["a.example", "192.0.2.1"]))
    _server(authority, "a.example").verify(certificate, [])
    with pytest.raises(VerificationError):
        _server(authority, "b.example").verify(certificate, [])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.1"]


def test_a_client_of_another_authority_is_not_trusted(tmp_path: Path) -> None:
    one, other = Authority(tmp_path / "one", "one"), Authority(tmp_path / "other", "other")
    certificate = _load(one.issue("client", "somebody", hosts=["somebody.example"]))
    _client(one).verify(certificate, [])
    with pytest.raises(VerificationError):
        _client(other).verify(certificate, [])


def test_certificate_subject_contains_user_and_groups(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    certificate = _load(authority.issue("c", "system:node:x", ["system:nodes", "more"]))
    values = [(attribute.rfc4514_attribute_name, attribute.value) for attribute in certificate.subject]
    assert values == [("O", "system:nodes"), ("O", "more"), ("CN", "system:node:x")]


def test_existing_authority_and_certificate_are_reused(tmp_path: Path) -> None:
    first = Authority(tmp_path, "authority").issue("server", "server", hosts=["a.example"])
    before = first.certificate.read_bytes()
    again = Authority(tmp_path, "authority")
    assert again.issue("server", "server", hosts=["a.example"]).certificate.read_bytes() == before
    _server(again, "a.example").verify(_load(again.issue("other", "other", hosts=["a.example"])), [])


def test_a_server_whose_names_changed_gets_a_new_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    authority.issue("server", "server", hosts=["a.example"])
    certificate = _load(authority.issue("server", "server", hosts=["a.example", "b.example"]))
    _server(authority, "b.example").verify(certificate, [])


def test_certificates_are_valid_for_more_than_one_year(tmp_path: Path) -> None:
    certificate = _load(Authority(tmp_path, "authority").issue("client", "client"))
    now = datetime.datetime.now(datetime.UTC)
    assert certificate.not_valid_before_utc < now
    assert certificate.not_valid_after_utc > now + datetime.timedelta(days=365)


def test_key_files_are_accessible_by_owner_only(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "authority").issue("client", "client")
    accounts = signing_key(tmp_path)
    for key in (pair.key, accounts.key, tmp_path / "ca.key"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert accounts.certificate.read_bytes().startswith(b"-----BEGIN PUBLIC KEY-----")
    # OpenSSL must accept the pair too.
    ssl.create_default_context().load_cert_chain(pair.certificate, pair.key)
