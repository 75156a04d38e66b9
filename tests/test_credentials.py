"""Content credentials: signed with a user's key, read back, forged, changed, stripped."""

import datetime
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import gsvc
from commands import assert_one_line, run_gsvc
from gsvc.codec.api.inspection import read_credentials, sign_file
from gsvc.codec.media.marks import read_marks
from needs import need_package
from test_marking import MARK, remuxed, write


class Signer(NamedTuple):
    chain: Path
    key: Path
    anchors: Path


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Signer:
    need_package("c2pa")
    return make_signer(tmp_path_factory.mktemp("keys"))


def make_signer(folder: Path) -> Signer:
    """A key, its certificate, and that of the authority that issued it."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    authority, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = _certificate("An authority", authority, "An authority", authority)
    leaf = _certificate("A newsroom", own, "An authority", authority)
    made = Signer(folder / "chain.pem", folder / "key.pem", folder / "root.pem")
    made.chain.write_bytes(leaf + root)
    made.anchors.write_bytes(root)
    made.key.touch(0o600)
    plain = serialization.NoEncryption()
    pkcs8 = serialization.PrivateFormat.PKCS8
    made.key.write_bytes(own.private_bytes(serialization.Encoding.PEM, pkcs8, plain))
    return made


def _certificate(name: str, key: Any, issuer: str, by: Any) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    is_authority, now = name == issuer, datetime.datetime.now(datetime.UTC)
    names = [
        x509.Name(
            [
                x509.NameAttribute(kind, n)
                for kind in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
            ]
        )
        for n in (name, issuer)
    ]
    usage = x509.KeyUsage(
        not is_authority, False, False, False, False, is_authority, is_authority, False, False
    )
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(names[0])
        .issuer_name(names[1])
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(is_authority, None), True)
        .add_extension(usage, True)
        .add_extension(identifier, False)
        .add_extension(above, False)
    )
    if not is_authority:
        purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION])
        builder = builder.add_extension(purposes, False)
    return builder.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize("suffix", ["mp4", "mov", "avi", "png", "jpg"])
def test_what_is_signed_is_verified(tmp_path: Path, suffix: str, signer: Signer) -> None:
    source, signed = write(tmp_path / f"a.{suffix}", MARK), tmp_path / f"b.{suffix}"
    assert read_credentials(source) is None
    sign_file(source, signed, signer.chain, signer.key)
    found = read_credentials(signed)
    assert found is not None and (found.signer, found.problems) == ("A newsroom", ())
    assert found.intact and found.synthetic and not found.trusted
    trusted = read_credentials(signed, signer.anchors)
    assert trusted is not None and trusted.trusted
    assert read_marks(signed) == (MARK,)


def test_changes_are_found_and_a_remux_strips(tmp_path: Path, signer: Signer) -> None:
    signed = tmp_path / "b.mp4"
    sign_file(write(tmp_path / "a.mp4", MARK), signed, signer.chain, signer.key)
    changed = bytearray(signed.read_bytes())
    changed[changed.index(b"mdat") + 40] ^= 1
    (tmp_path / "c.mp4").write_bytes(changed)
    found = read_credentials(tmp_path / "c.mp4", signer.anchors)
    assert found is not None and not found.intact and not found.trusted
    assert found.problems == ("assertion.bmffHash.mismatch",)
    again = remuxed(signed, tmp_path / "d.mp4")
    assert read_credentials(again) is None and read_marks(again) == (MARK,)


def test_info_verifies(tmp_path: Path, signer: Signer) -> None:
    write(tmp_path / "a.png", MARK)
    keys = "--cert", signer.chain, "--key", signer.key
    signed = run_gsvc("sign", "a.png", "-o", "b.png", *keys, cwd=tmp_path)
    assert (signed.returncode, signed.stderr) == (0, b"")
    told = run_gsvc("info", "b.png", "--anchors", signer.anchors, cwd=tmp_path)
    assert b"signed as synthetic by A newsroom, whom your anchors vouch for" in told.stdout
    told = run_gsvc("info", "b.png", "--json", cwd=tmp_path)
    assert json.loads(told.stdout)["credentials"]["intact"] is True


def test_what_cannot_be_signed_is_refused(tmp_path: Path, signer: Signer) -> None:
    marked, plain = write(tmp_path / "a.png", MARK), write(tmp_path / "b.png", None)
    other = tmp_path / "other.pem"
    other.write_bytes(signer.key.read_bytes())
    other.chmod(0o640)
    junk = tmp_path / "junk.pem"
    junk.write_text("no key")
    junk.chmod(0o600)
    target = tmp_path / "out.png"
    for source, chain, key, said in (
        (plain, signer.chain, signer.key, "has no mark"),
        (marked, signer.chain, other, "chmod 600"),
        (marked, signer.chain, junk, "no private key in PEM"),
        (marked, signer.chain, tmp_path / "none.pem", "no key can be read"),
        (marked, tmp_path / "none.pem", signer.key, "no certificate there"),
        (marked, junk, signer.key, "cannot sign"),
    ):
        with pytest.raises(gsvc.ConfigError, match=said):
            sign_file(source, target, chain, key)
        assert not target.exists()
    sign_file(marked, target, signer.chain, signer.key)
    with pytest.raises(gsvc.ConfigError, match="has content credentials"):
        sign_file(target, tmp_path / "twice.png", signer.chain, signer.key)
    with pytest.raises(gsvc.ConfigError, match="one kind"):
        sign_file(marked, tmp_path / "out.mkv", signer.chain, signer.key)


def test_one_line_says_what_is_wrong(tmp_path: Path, signer: Signer) -> None:
    command = "sign", tmp_path / "no.png", "-o", tmp_path / "b.png", "--cert", signer.chain
    assert_one_line(run_gsvc(*command, "--key", signer.key), 1, "no such file")
    write(tmp_path / "a.png", MARK)
    told = run_gsvc("info", tmp_path / "a.png", "--anchors", tmp_path / "none.pem")
    assert_one_line(told, 1, "no certificates in PEM")
