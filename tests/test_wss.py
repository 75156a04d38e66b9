"""wss:// addresses: what certificates let through."""

import asyncio
import socket
import ssl
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import gsvc
from gsvc import Frame, ReceiveSettings, SendSettings, VideoReceiver, VideoSender
from gsvc.codec.network.address import TlsSettings, parse_address
from gsvc.codec.network.tcp_websocket import Channel, run_channels
from live import PATIENT, SETTINGS, STILL, VIDEO, collect, frames, free_port, listening, run
from needs import need_package

need_package("websockets")


@pytest.fixture
def certificate(tmp_path: Path) -> TlsSettings:
    """A certificate of 127.0.0.1, which vouches for itself."""
    made = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    names = "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"
    files = "-out", str(made[0]), "-keyout", str(made[1])
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return TlsSettings(*made)


@pytest.mark.parametrize("both", [False, True], ids=["server", "both sides"])
@pytest.mark.parametrize("scheme", ["tls", "wss"])
def test_tls_shows_what_is_sent(certificate: TlsSettings, scheme: str, both: bool) -> None:
    """With the server's certificate alone, and where the server asks for one too."""
    trusts = TlsSettings(authorities=certificate.certificate)
    mutual = replace(certificate, authorities=certificate.certificate)

    async def main() -> None:
        port = free_port(socket.SOCK_STREAM)
        sending = SendSettings(realtime=False, tls=mutual if both else certificate)
        encoder = gsvc.Encoder(VIDEO, SETTINGS)
        sender = VideoSender(f"{scheme}://@127.0.0.1:{port}", encoder, sending)
        receiving = ReceiveSettings(STILL, PATIENT, tls=mutual if both else trusts)
        got: list[Frame] = []
        receiver = VideoReceiver(f"{scheme}://127.0.0.1:{port}", receiving)
        await asyncio.gather(sender.run(frames(6)), collect(receiver, got))
        assert len(got) == 6

    run(main())


@pytest.mark.parametrize("scheme", ["tls", "wss"])
def test_who_has_no_certificate_is_sent_nothing(certificate: TlsSettings, scheme: str) -> None:
    async def main() -> None:
        port = free_port(socket.SOCK_STREAM)
        asks = replace(certificate, authorities=certificate.certificate)
        encoder = gsvc.Encoder(VIDEO, SETTINGS)
        sending = SendSettings(realtime=False, tls=asks)
        sender = VideoSender(f"{scheme}://@127.0.0.1:{port}", encoder, sending)
        task = asyncio.create_task(sender.run(frames(6)))
        await listening(port, socket.SOCK_STREAM)
        trusts = TlsSettings(authorities=certificate.certificate)
        receiving = ReceiveSettings(STILL, silence=1.0, tls=trusts)
        receiver = VideoReceiver(f"{scheme}://127.0.0.1:{port}", receiving)
        with pytest.raises(gsvc.InputError):
            await collect(receiver, [])
        assert sender.stats().bytes == 0
        task.cancel()
        with suppress(asyncio.CancelledError, gsvc.GsvcError):
            await task

    run(main())


@pytest.mark.parametrize("scheme", ["tls", "wss"])
def test_a_certificate_that_nobody_vouches_for_is_refused(
    certificate: TlsSettings, scheme: str
) -> None:
    async def main() -> None:
        port = free_port(socket.SOCK_STREAM)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        assert certificate.certificate is not None
        context.load_cert_chain(certificate.certificate, certificate.private_key)

        async def idle(channel: Channel) -> None:
            await asyncio.Event().wait()

        serving = asyncio.create_task(
            run_channels(parse_address(f"{scheme}://@127.0.0.1:{port}"), idle, context)
        )
        await listening(port, socket.SOCK_STREAM)
        receiver = VideoReceiver(f"{scheme}://127.0.0.1:{port}", ReceiveSettings(STILL))
        with pytest.raises(gsvc.InputError, match="authorities="):
            await collect(receiver, [])
        serving.cancel()

    run(main())


def test_certificates_are_checked_at_once(certificate: TlsSettings, tmp_path: Path) -> None:
    with pytest.raises(gsvc.ConfigError, match="go together"):
        TlsSettings(certificate=certificate.certificate)
    for address, tls, said in (
        ("wss://@127.0.0.1:5999", TlsSettings(), "certificate= and private_key="),
        ("tls://@127.0.0.1:5999", TlsSettings(), "tls:// needs certificate="),
        ("ws://@127.0.0.1:5999", certificate, "for tls:// and wss://"),
        ("wss://127.0.0.1:5999", TlsSettings(authorities=tmp_path / "none"), "cannot be used"),
    ):
        with pytest.raises(gsvc.ConfigError, match=said):
            VideoReceiver(address, ReceiveSettings(STILL, tls=tls))
