"""What `gsvc info` says of a video or image that trained models drew: that they did, and which."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from gsvc.codec.command.progress import JsonLines
from gsvc.codec.extras import EXTRAS
from gsvc.codec.marks import SOURCE_TYPE, Mark

if TYPE_CHECKING:
    from gsvc.codec.media.credentials import Credentials

_NONE = "none: a mark can be removed, and anyone can write one"


def show_mark(source: str, anchors: str | None, lines: JsonLines | None) -> bool:
    """Show marks and credentials of a file, as text or as JSON `lines`; whether there are any."""
    # Late: a stream needs no FFmpeg.
    from gsvc.codec.media.credentials import read_credentials
    from gsvc.codec.media.marked import is_other_file, read_marks

    if not is_other_file(source):
        return False
    marks = read_marks(source)
    asked = anchors is not None or not EXTRAS["c2pa"].missing
    signed = read_credentials(source, anchors) if asked else None
    if not marks and signed is None:
        return False
    if lines is not None:
        fields = [{**asdict(mark), "source_type": SOURCE_TYPE} for mark in marks]
        lines.put("decoded", source=source, marks=fields, credentials=signed and asdict(signed))
        return True
    for mark in marks:
        print(f"{source}: decoded by gsvc {mark.version}")
        print(f"  {'synthetic':<18} yes: in part drawn by trained models ({_models(mark)})")
        print(f"  {'source type':<18} {SOURCE_TYPE}")
    if not marks:
        print(f"{source}: no mark of gsvc")
    print(f"  {'proof':<18} {_NONE if signed is None else _proof(signed)}")
    return True


def _models(mark: Mark) -> str:
    refiner = [f"{mark.backend}, steps {mark.steps}"] * bool(mark.steps)
    motion = [mark.motion] * (mark.motion != "dis")
    return "; ".join(refiner + motion)


def _proof(signed: "Credentials") -> str:
    if not signed.intact:
        return f"FORGED or changed since it was signed ({', '.join(signed.problems)})"
    says = "synthetic" if signed.synthetic else "not that it is synthetic"
    known = "whom your anchors vouch for" if signed.trusted else "whom nobody here vouches for"
    return f"signed as {says} by {signed.signer}, {known}; unchanged since"
