"""Certificates of the cluster, signed by two authorities (Kubernetes and etcd).

The module uses the `cryptography` library instead of the openssl program. It needs no configuration files
and no process per certificate, so a control plane for one test has its certificates in milliseconds. Keys
use the elliptic curve P-256: every Kubernetes component accepts it, and keys are generated much faster than
with RSA.
"""

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=3650)
"""Validity of every certificate: longer than the life of such a cluster, so that none needs renewal."""
_BACKDATED = datetime.timedelta(hours=1)


@dataclass(frozen=True)
class Pair:
    """Certificate and its private key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """Certificate authority kept in a directory; existing files are reused.

    No certificate may use the authority's name as its common name: it would be taken for self-signed.
    """

    def __init__(self, directory: Path, name: str) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._directory = directory
        self.pair = Pair(directory / "ca.crt", directory / "ca.key")
        if self.pair.certificate.exists():
            self._certificate = x509.load_pem_x509_certificate(self.pair.certificate.read_bytes())
            self._key = _load_key(self.pair.key)
            return
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        self._certificate = (
            _unsigned(subject, subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        _write(self.pair, self._certificate, self._key)

    def issue(
        self, file: str, common_name: str, organizations: Sequence[str] = (), hosts: Sequence[str] = ()
    ) -> Pair:
        """Return a certificate for a client, and with `hosts` (names and addresses) also for a server.

        Kubernetes uses the common name as the user name and the organizations as groups.
        """
        pair = Pair(self._directory / f"{file}.crt", self._directory / f"{file}.key")
        if pair.certificate.exists() and _hosts(pair.certificate) == sorted(hosts):
            return pair
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
        subject = x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        key = ec.generate_private_key(ec.SECP256R1())
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])]
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _unsigned(subject, self._certificate.subject, key.public_key())
            .add_extension(signer, critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        _write(pair, builder.sign(self._key, hashes.SHA256()), key)
        return pair


def signing_key(directory: Path) -> Pair:
    """Return the key pair that signs service account tokens; its "certificate" is only the public key."""
    pair = Pair(directory / "service-accounts.pub", directory / "service-accounts.key")
    if not pair.certificate.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        _write_private(pair.key, key)
        pem, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        pair.certificate.write_bytes(key.public_key().public_bytes(pem, form))
    return pair


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + LIFETIME)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _hosts(file: Path) -> list[str]:
    """Return the names and addresses in a certificate."""
    extensions = x509.load_pem_x509_certificate(file.read_bytes()).extensions
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return sorted([*names.get_values_for_type(x509.DNSName), *addresses])


def _load_key(file: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(file.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{file} is not an elliptic curve key")
    return key


def _write(pair: Pair, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    _write_private(pair.key, key)
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _write_private(file: Path, key: ec.EllipticCurvePrivateKey) -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as handle:
        handle.write(pem)
