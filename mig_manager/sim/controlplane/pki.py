"""The certificates of one throw-away control plane: an authority, what it signs, and the service-account keys.

Made with the ``cryptography`` package (extra ``demo``): the openssl program is not on every machine, and Python's own
``ssl`` can use certificates but not make them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Self

from mig_manager.sim.controlplane.errors import ControlPlaneError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, CertificateBuilder, Name, SubjectAlternativeName

VALID_DAYS = 365
CLOCK_SKEW = timedelta(hours=1)
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate (or public key) and its private key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """A certificate authority whose files are in one private directory."""

    def __init__(self, directory: Path, certificate: Certificate, key: EllipticCurvePrivateKey) -> None:
        self._directory = directory
        self._certificate = certificate
        self._key = key
        self.pair = Pair(directory / "ca.crt", directory / "ca.key")

    @classmethod
    def create(cls, directory: Path) -> Self:
        """Make a new authority in a directory that does not exist yet."""
        try:
            from cryptography import x509
        except ImportError as error:
            raise ControlPlaneError(
                "making certificates: the package cryptography is missing; install mig-manager[demo]"
            ) from error
        directory.mkdir(mode=0o700)
        key = _new_key()
        name = _name("mig-manager control plane")
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
        builder = _builder(name, name, key)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        # Without the key identifiers, strict verification (Python 3.13's default) refuses the chain.
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = _sign(builder.add_extension(identifier, critical=False), key)
        authority = cls(directory, certificate, key)
        authority._write("ca", certificate, key)
        return authority

    @classmethod
    def load(cls, directory: Path) -> Self:
        """The authority that ``create`` made there, in another process perhaps."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key = load_pem_private_key((directory / "ca.key").read_bytes(), password=None)
        if not isinstance(key, EllipticCurvePrivateKey):
            raise ControlPlaneError(f"reading {directory / 'ca.key'}: not an elliptic-curve key")
        return cls(directory, x509.load_pem_x509_certificate((directory / "ca.crt").read_bytes()), key)

    def server(self, name: str, addresses: Sequence[str]) -> Pair:
        """A serving certificate for the API server's names and these IP addresses."""
        from cryptography import x509

        alternatives = [x509.DNSName(host) for host in SERVER_NAMES]
        numbers = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        return self._issue(name, name, (), x509.SubjectAlternativeName([*alternatives, *numbers]))

    def client(self, name: str, user: str, groups: Sequence[str] = ()) -> Pair:
        """A client certificate: Kubernetes reads the user from CN and the groups from O."""
        return self._issue(name, user, groups, None)

    def service_account_keys(self) -> Pair:
        """The key pair that signs and checks service-account tokens; ``certificate`` is the bare public key."""
        from cryptography.hazmat.primitives import serialization

        key = _new_key()
        public = self._directory / "service-account.pub"
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, form))
        return Pair(public, self._write_key("service-account", key))

    def _issue(self, name: str, user: str, groups: Sequence[str], alternatives: SubjectAlternativeName | None) -> Pair:
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID

        key = _new_key()
        builder = _builder(_name(user, groups), self._certificate.subject, key)
        purpose = ExtendedKeyUsageOID.CLIENT_AUTH
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
            purpose = ExtendedKeyUsageOID.SERVER_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        return self._write(name, _sign(builder, self._key), key)

    def _write(self, name: str, certificate: Certificate, key: EllipticCurvePrivateKey) -> Pair:
        from cryptography.hazmat.primitives import serialization

        path = self._directory / f"{name}.crt"
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return Pair(path, self._write_key(name, key))

    def _write_key(self, name: str, key: EllipticCurvePrivateKey) -> Path:
        from cryptography.hazmat.primitives import serialization

        path = self._directory / f"{name}.key"
        path.touch(mode=0o600)
        form = serialization.PrivateFormat.PKCS8
        path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        return path


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(user: str, groups: Sequence[str] = ()) -> Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, user)])


def _builder(subject: Name, issuer: Name, key: EllipticCurvePrivateKey) -> CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - CLOCK_SKEW).not_valid_after(now + timedelta(days=VALID_DAYS))


def _sign(builder: CertificateBuilder, key: EllipticCurvePrivateKey) -> Certificate:
    from cryptography.hazmat.primitives import hashes

    return builder.sign(key, hashes.SHA256())
