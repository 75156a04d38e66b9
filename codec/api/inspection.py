"""`info`: one call from a file to what is in it; and who signed that trained models drew it.

C2PA content credentials are a signed statement in a decoded file.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gsvc.codec.api.reports import shown_rate, shown_time
from gsvc.codec.bitstream import frames, scaffold
from gsvc.codec.bitstream.errors import DEFAULT_LIMITS, ConfigError, InputError, Limits, typed
from gsvc.codec.bitstream.header import TOOLS, Header
from gsvc.codec.bitstream.layers import GROUP_LAYERS
from gsvc.codec.bitstream.stream_info import IntervalInfo, PacketInfo, StreamInfo, read_info
from gsvc.codec.media.marks import SOURCE_TYPE, Mark, read_marks
from gsvc.codec.media.output import atomic_output
from gsvc.codec.media.places import PathOrFile, open_any, read_secret
from gsvc.codec.weights.extras import need


@typed
def info(
    source: PathOrFile,
    *,
    elements: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    partial: bool = False,
) -> StreamInfo:
    """Describe a stream without decoding a picture.

    Args:
        source: A path, of a stream or of what `mux` wrote, "-" for standard input, or an open
            binary file, of which all that is left is read.
        elements: List every scaffold element of each packet too.
        limits: What the stream may ask for.
        partial: Describe what comes before damage, which `StreamInfo.damage` tells, instead of
            raising BitstreamError. A damaged header raises it all the same.

    Raises:
        InputError: The source cannot be read.
        BitstreamError: The stream is damaged or beyond `limits`.
    """
    with open_any(source) as file:
        return read_info(file, elements=elements, limits=limits, partial=partial)


_PRIMARIES = {1: "BT.709", 5: "BT.470BG", 6: "BT.601", 7: "SMPTE 240M", 9: "BT.2020", 12: "P3"}
_TRANSFERS = {1: "BT.709", 4: "gamma 2.2", 5: "gamma 2.8", 6: "BT.601", 8: "linear", 13: "sRGB"}
_MATRICES = {0: "RGB", 1: "BT.709", 5: "BT.601", 6: "BT.601", 7: "SMPTE 240M", 9: "BT.2020"}


def info_lines(info: StreamInfo, *, packets: bool = False, fields: bool = False) -> Iterator[str]:
    """`info` as text; `packets`: also each packet, and its elements where they are listed;
    `fields`: also each field of the header."""
    header, is_still = info.header, info.frames == 1 and info.damage is None
    yield "video"
    yield f"  {'size':<18} {_size(header)}"
    if is_still:
        yield f"  {'frames':<18} 1, a still"
    else:
        rate = f"{float(header.format.frame_rate):.3f}".rstrip("0").rstrip(".")
        yield f"  {'frame rate':<18} {rate} frames/s"
        yield f"  {'frames':<18} {info.frames} in {shown_time(info.duration)}"
    yield f"  {'colour':<18} {_color(header.format.color)}"
    yield f"  {'sound':<18} {'Opus' if header.audio else 'none'}"
    yield "stream"
    yield f"  {'size':<18} {info.size} bytes in {len(info.packets)} packets"
    rate = shown_rate(info.total_bitrate, info.bitrate, info.bpp, info.frames)
    yield f"  {'rate':<18} {rate}"
    if info.frames and not is_still:
        wait = f"{info.startup_delay():.1f} s over a link of {info.total_bitrate / 1000:.2f} kbit/s"
        yield f"  {'start-up delay':<18} {wait}, the mean of all"
    yield f"  {'level':<18} {header.level}"
    yield f"  {'scaffold layers':<18} {', '.join(_layers(info)) or 'none'}"
    made_for = f"weights {header.model_id.hex()}" if any(header.model_id) else "any"
    yield f"  {'made for refiner':<18} {made_for}, seed {header.seed}"
    yield f"  {'scaffold hash':<18} {info.scaffold_hash}"
    yield from _ledger_lines(info)
    if fields:
        yield "header"
        for name, value in header.fields().items():
            yield f"  {name:<18} {f'{value:08x}' if name == 'model_id' else value}"
    if packets:
        yield "packets"
        for packet in info.packets:
            yield from _packet_lines(packet)


def _layers(info: StreamInfo) -> Iterator[str]:
    """Names of the layers that the header switches on, and of those that groups do."""
    yield from (name for name in TOOLS if name in info.header.tools)
    for layer in GROUP_LAYERS:
        if info.bits.get(layer.name):
            yield f"{layer.name} (in some groups)"


def _size(header: Header) -> str:
    video, aspect = header.format, header.format.pixel_aspect
    text = f"{video.width}x{video.height}"
    if aspect == 1:
        return text
    shape = f"{aspect.numerator}:{aspect.denominator}"
    return f"{text}, pixels of {shape}, shown as {round(video.width * aspect)}x{video.height}"


def _color(color: frames.Color) -> str:
    named = ("primaries", _PRIMARIES), ("transfer", _TRANSFERS), ("matrix", _MATRICES)
    told = [
        f"{what} {names.get(code, f'H.273 code {code}')}"
        for what, names in named
        if (code := getattr(color, what)) != frames.UNSPECIFIED
    ]
    extent = "full" if color.full_range else "limited"
    return f"{', '.join(told) or 'not specified'}, {extent} range"


def _ledger_lines(info: StreamInfo) -> Iterator[str]:
    yield "ledger"
    for layer, bits in ((layer, bits) for layer, bits in info.bits.items() if bits):
        yield f"  {layer:<18} {bits:>12} bits {bits / (8 * info.size):>7.1%}"
    where = "read" if info.damage else "in the file"
    yield f"  {'sum':<18} {sum(info.bits.values()):>12} bits {8 * info.size:>12} {where}"


def _packet_lines(packet: PacketInfo) -> Iterator[str]:
    coding = "" if packet.crf is None else f"  crf {packet.crf}, size {packet.scale}/8"
    layers = ", ".join(f"{layer} {bits}" for layer, bits in packet.bits.items() if bits)
    sizes = f"to frame {packet.time:>6} {packet.size:>7} bytes{coding}  bits: {layers}"
    yield f"  {packet.name:<6} {sizes}"
    for interval in packet.intervals:
        yield f"    frame {interval.time - 1:>6} {_interval_text(interval)}"
    for name, value in packet.elements:
        yield f"    {name:<20} {value}"


def _interval_text(interval: IntervalInfo) -> str:
    if interval.place is scaffold.Place.AFTER:
        return "held: shows the last key picture"
    text = f"key picture, {interval.size} bytes of AV1"
    if interval.place is scaffold.Place.BEFORE:
        text += "; those before it hold it"
    return text + "; those before it dissolve" * interval.dissolves


FORMATS = {
    ".mp4": "video/mp4",
    ".m4v": "video/mp4",
    ".mov": "video/quicktime",
    ".avi": "video/avi",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
}
"""Suffix → MIME type of what can be signed."""

_ALGORITHMS = {"secp256r1": b"es256", "secp384r1": b"es384", "secp521r1": b"es512"}
_OFFLINE = {"verify": {"remote_manifest_fetch": False, "ocsp_fetch": False}}


@dataclass(frozen=True)
class Credentials:
    """What the content credentials of a file say, and whether they hold."""

    signer: str
    """Name in the signer's certificate; anyone can make one of any name."""
    intact: bool
    """The signature is right, and the file is what was signed."""
    trusted: bool
    """The certificate leads to one of the anchors."""
    synthetic: bool
    """It says that trained models drew the file in part."""
    problems: tuple[str, ...]
    """C2PA's codes of what is wrong."""


def sign_file(
    source: str | Path,
    target: str | Path,
    certificates: str | Path,
    key: str | Path,
    *,
    overwrite: bool = False,
) -> None:
    """Write a copy of a marked file with content credentials.

    Args:
        source: A .mp4, .mov, .avi, .png or .jpg file that `decode` marked.
        target: Where the signed copy goes, of the same suffix; it may be the source.
        certificates: A PEM file: the signer's certificate first, then those above it.
        key: The PEM file of its private key, which only its owner may read.
        overwrite: Replace a target that exists.

    Raises ConfigError for a source without a mark, with credentials or of another kind, and for
    certificates or a key that cannot sign; OutputError; MissingDependencyError without the extra.
    """
    need("c2pa", "signing")
    import c2pa

    form, mark = _checked(source, target)
    with atomic_output(target, overwrite) as path, open(source, "rb") as old:
        try:
            signer = c2pa.Signer.from_info(_signer_info(certificates, key))
            with open(path, "w+b") as new:
                c2pa.Builder(_manifest(mark, Path(target).name)).sign(signer, form, old, new)
        except c2pa.C2paError as error:
            raise ConfigError(
                f"{certificates} and {key} cannot sign: {error}; it takes a certificate that may "
                "sign content, not one signed by itself, and its own key"
            ) from error


def read_credentials(source: str | Path, anchors: str | Path | None = None) -> Credentials | None:
    """The content credentials of a file; None where there are none. Nothing is fetched for it.

    `anchors` is a PEM file of the certificates that you trust. Raises MissingDependencyError
    without the extra, ConfigError for anchors that cannot be read.
    """
    need("c2pa", "reading content credentials")
    import c2pa

    form = FORMATS.get(Path(source).suffix.lower())
    if form is None:
        return None
    context = c2pa.Context(c2pa.Settings.from_dict(_settings(anchors)))
    with open(source, "rb") as file:
        try:
            found = json.loads(c2pa.Reader(form, file, context=context).json())
        except c2pa.C2paError.ManifestNotFound:
            return None
        except c2pa.C2paError as error:
            return Credentials("unknown", False, False, False, (str(error),))
    return _told(found)


def _checked(source: str | Path, target: str | Path) -> tuple[str, Mark]:
    """Type and mark of a source that can be signed."""
    form = FORMATS.get(Path(source).suffix.lower())
    if form is None or FORMATS.get(Path(target).suffix.lower()) != form:
        kinds = ", ".join(FORMATS)
        raise ConfigError(f"{source} to {target}: both must be of one kind that has room: {kinds}")
    if not Path(source).is_file():
        raise InputError(f"{source}: there is no such file")
    marks = read_marks(source)
    if not marks:
        raise ConfigError(f"{source} has no mark: sign what gsvc decode wrote with --steps or rife")
    if read_credentials(source) is not None:
        raise ConfigError(f"{source} has content credentials: sign what gsvc decode wrote")
    return form, marks[0]


def _signer_info(certificates: str | Path, key: str | Path) -> Any:
    import c2pa

    try:
        chain = Path(certificates).read_bytes()
    except OSError as error:
        raise ConfigError(f"{certificates}: no certificate there: {error.strerror}") from error
    secret = read_secret(key)
    return c2pa.C2paSignerInfo(_algorithm(secret, key), chain, secret, None)


def _algorithm(secret: bytes, path: str | Path) -> bytes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(secret, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ConfigError(f"{path} is no private key in PEM without a password") from error
    if isinstance(key, ec.EllipticCurvePrivateKey) and key.curve.name in _ALGORITHMS:
        return _ALGORITHMS[key.curve.name]
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return b"ed25519"
    if isinstance(key, rsa.RSAPrivateKey):
        return b"ps256"
    raise ConfigError(f"{path}: C2PA signs by P-256, P-384, P-521, Ed25519 or RSA, not by this key")


def _manifest(mark: Mark, title: str) -> dict[str, object]:
    agent = {"name": "gsvc", "version": mark.version}
    action = {"action": "c2pa.created", "digitalSourceType": SOURCE_TYPE, "softwareAgent": agent}
    action["description"] = str(mark)
    actions = {"label": "c2pa.actions", "data": {"actions": [action]}}
    return {"title": title, "claim_generator_info": [agent], "assertions": [actions]}


def _settings(anchors: str | Path | None) -> dict[str, object]:
    if anchors is None:
        return {**_OFFLINE}
    try:
        trusted = Path(anchors).read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{anchors}: no certificates in PEM can be read there") from error
    verify = {**_OFFLINE["verify"], "verify_trust": True}
    return {"verify": verify, "trust": {"user_anchors": trusted}}


def _told(found: dict[str, Any]) -> Credentials:
    active = found["manifests"][found["active_manifest"]]
    by = active.get("signature_info", {})
    codes = [status["code"] for status in found.get("validation_status", [])]
    state = found.get("validation_state")
    return Credentials(
        signer=by.get("common_name") or by.get("issuer") or "unknown",
        intact=state in ("Valid", "Trusted"),
        trusted=state == "Trusted",
        synthetic=SOURCE_TYPE in json.dumps(active.get("assertions", [])),
        problems=tuple(code for code in codes if code != "signingCredential.untrusted"),
    )
