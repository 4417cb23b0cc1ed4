from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from handlers.join.certificates import Authority
from handlers.join.csr import NOT_A_REQUEST, NOT_ITS_KEY, OTHER_KEY, WEAK_HASH, CsrRefused, read_csr
from tests.support.nodes import request_of
from tools.authority import new_key

RSA = ("-newkey", "rsa:2048", "-pkeyopt", "rsa_keygen_bits:2048")
P256 = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256")


def by_openssl(folder: Path, *options: str) -> tuple[str, bytes]:
    """Make a key and a request for it; return the request in PEM and the public key in DER."""
    command = ["openssl", "req", "-new", "-nodes", "-subj", "/CN=mine", "-keyout", "key.pem", "-out", "csr.pem"]
    subprocess.run([*command, *options], cwd=folder, check=True, capture_output=True)
    key = load_pem_private_key((folder / "key.pem").read_bytes(), None)
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return (folder / "csr.pem").read_text(), public


def refusal(pem: str) -> str:
    with pytest.raises(CsrRefused) as raised:
        read_csr(pem)
    return str(raised.value)


@pytest.mark.parametrize(
    "options",
    [
        P256,
        (*P256, "-sha512"),
        ("-newkey", "ed25519"),
        RSA,
        (*RSA, "-sha384"),
        (*RSA, "-sigopt", "rsa_padding_mode:pss"),
        (*P256, "-newhdr"),
        (*P256, "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "subjectAltName=DNS:other"),
    ],
    ids=" ".join,
)
def test_the_key_of_a_request_that_openssl_made_is_read(options: tuple[str, ...], tmp_path: Path) -> None:
    pem, public = by_openssl(tmp_path, *options)
    assert read_csr(pem).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) == public


@pytest.mark.parametrize(
    "options",
    [
        ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384"),
        ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp256k1"),
        ("-newkey", "rsa:1024"),
        ("-newkey", "rsa:2047"),
        ("-newkey", "ed448"),
        ("-newkey", "rsa-pss", "-pkeyopt", "rsa_keygen_bits:2048"),
        (*P256, "-pkeyopt", "ec_param_enc:explicit"),
    ],
    ids=" ".join,
)
def test_another_kind_of_key_is_refused(options: tuple[str, ...], tmp_path: Path) -> None:
    assert refusal(by_openssl(tmp_path, *options)[0]) in {OTHER_KEY, NOT_A_REQUEST}


def test_a_key_of_more_than_8192_bits_is_refused() -> None:
    key = rsa.RSAPublicNumbers(65537, 2**8192 + 1).public_key()
    spki = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert refusal(armoured(enveloped(tbs_of(spki), SHA256_RSA, bytes(1025)))) == OTHER_KEY


@pytest.mark.parametrize(
    "options", [(*RSA, "-sha1"), (*RSA, "-md5"), (*RSA, "-sha224"), (*P256, "-sha1")], ids=" ".join
)
def test_a_weak_hash_is_refused(options: tuple[str, ...], tmp_path: Path) -> None:
    assert refusal(by_openssl(tmp_path, *options)[0]) == WEAK_HASH


def test_a_request_that_another_key_signed_is_refused() -> None:
    mine, others = (x509.load_pem_x509_csr(request_of(new_key()).encode()) for _ in range(2))
    signed = mine.public_bytes(Encoding.DER).replace(mine.signature, others.signature)
    assert refusal(armoured(signed)) in {NOT_ITS_KEY, NOT_A_REQUEST}


def test_a_request_for_a_key_that_the_sender_does_not_have_is_refused() -> None:
    key, others = ed25519.Ed25519PrivateKey.generate(), ed25519.Ed25519PrivateKey.generate()
    own, another = (each.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw) for each in (key, others))
    request = x509.load_pem_x509_csr(request_of(key).encode()).public_bytes(Encoding.DER)
    assert refusal(armoured(request.replace(own, another))) == NOT_ITS_KEY


@pytest.mark.parametrize(
    ("form", "outcome"), [(PublicFormat.UncompressedPoint, None), (PublicFormat.CompressedPoint, OTHER_KEY)]
)
def test_a_point_that_is_spelled_otherwise_than_the_certificate_would_spell_it_is_refused(
    form: PublicFormat, outcome: str | None
) -> None:
    key = new_key()
    spki = der(0x30, EC_P256, der(0x03, b"\0", key.public_key().public_bytes(Encoding.X962, form)))
    tbs = tbs_of(spki)
    pem = armoured(enveloped(tbs, SHA256_EC, key.sign(tbs, ec.ECDSA(hashes.SHA256()))))
    if outcome is None:
        assert read_csr(pem) == key.public_key()
    else:
        assert refusal(pem) == outcome


def der(tag: int, *parts: bytes) -> bytes:
    """Encode a value (X.690, 8.1)."""
    content = b"".join(parts)
    length = len(content).to_bytes(2, "big")
    return bytes([tag, 0x82, *length]) + content if len(content) > 255 else _short(tag, content)


def _short(tag: int, content: bytes) -> bytes:
    return (bytes([tag, len(content)]) if len(content) < 128 else bytes([tag, 0x81, len(content)])) + content


EC_P256 = der(0x30, bytes.fromhex("06072a8648ce3d020106082a8648ce3d030107"))
SHA256_EC = der(0x30, bytes.fromhex("06082a8648ce3d040302"))
SHA256_RSA = der(0x30, bytes.fromhex("06092a864886f70d01010b0500"))


def tbs_of(spki: bytes) -> bytes:
    """Return what a request without subject and attributes signs (RFC 2986, 4.1)."""
    return der(0x30, der(0x02, b"\0"), der(0x30), spki, der(0xA0))


def enveloped(tbs: bytes, algorithm: bytes, signature: bytes) -> bytes:
    return der(0x30, tbs, algorithm, der(0x03, b"\0", signature))


def armoured(der: bytes) -> str:
    return f"-----BEGIN CERTIFICATE REQUEST-----\n{base64.b64encode(der).decode()}\n-----END CERTIFICATE REQUEST-----\n"


def test_white_space_and_other_line_ends_around_a_request_are_nothing() -> None:
    pem = request_of(new_key())
    for spelled in (pem.strip(), f"\n \t{pem}\n\n", pem.replace("\n", "\r\n"), pem.replace("\n", "")):
        assert read_csr(spelled)


@pytest.mark.parametrize(
    "spelled",
    [
        "",
        " ",
        "{}x",
        "x{}",
        "{}{}",
        "{}\0",
        "{}\N{NO-BREAK SPACE}",
        "subject=CN = a node\n{}",
        "{}-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n",
    ],
)
def test_anything_around_a_request_is_refused(spelled: str) -> None:
    pem = request_of(new_key())
    assert refusal(spelled.format(pem, pem)) == NOT_A_REQUEST


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BEGIN CERTIFICATE REQUEST", "BEGIN NEW CERTIFICATE REQUEST"),
        ("CERTIFICATE REQUEST", "CERTIFICATE"),
        ("CERTIFICATE REQUEST", "PRIVATE KEY"),
        ("-----BEGIN", "----BEGIN"),
        ("\nMI", "\nTI"),
        ("\nMI", "\nM=I"),
        ("\nMI", "\nM!I"),
        ("\nMI", "\nM"),
        ("\nMI", "\n\N{LATIN CAPITAL LETTER M WITH DOT ABOVE}I"),
    ],
)
def test_a_request_that_is_not_well_formed_is_refused(old: str, new: str) -> None:
    pem = request_of(new_key())
    assert old in pem
    assert refusal(pem.replace(old, new)) == NOT_A_REQUEST


def test_a_byte_behind_the_request_inside_its_armour_is_refused() -> None:
    der = x509.load_pem_x509_csr(request_of(new_key()).encode()).public_bytes(Encoding.DER)
    assert read_csr(armoured(der))
    assert refusal(armoured(der + b"\0")) == NOT_A_REQUEST


def test_something_else_under_the_title_of_a_request_is_refused(founder: Authority) -> None:
    for other in (b"", b"\x30\x00", b"\x30\x80", b"\xff" * 64, founder.certificate.public_bytes(Encoding.DER)):
        assert refusal(armoured(other)) == NOT_A_REQUEST
