"""Key and certificates of `gsvc send` and `gsvc recv`."""

from argparse import ArgumentParser, Namespace
from typing import Any

from gsvc.codec.network.tls import TlsSettings
from gsvc.codec.network.wire_key import VARIABLE, find_key


def add_security(parser: ArgumentParser) -> None:
    """--key-file and the options of wss:// addresses."""
    add = parser.add_argument
    key = f"take and send only what is sealed with its key (64 hex digits; or variable {VARIABLE})"
    add("--key-file", metavar="FILE", help=key)
    add("--tls-cert", metavar="FILE", help="PEM: certificate of a wss:// address that listens")
    add("--tls-key", metavar="FILE", help="PEM: its private key")
    add("--tls-ca", metavar="FILE", help="PEM: who vouches for the other side (the system's)")


def security_of(options: Namespace) -> dict[str, Any]:
    """The fields `key` and `tls` of the settings."""
    tls = TlsSettings(options.tls_cert, options.tls_key, options.tls_ca)
    return {"key": find_key(options.key_file), "tls": tls}
