"""What `gsvc info` says of a video or image that trained models drew: that they did, and which."""

from dataclasses import asdict

from gsvc.codec.command.progress import JsonLines
from gsvc.codec.marks import SOURCE_TYPE, Mark


def show_mark(source: str, lines: JsonLines | None) -> bool:
    """Show the marks of a file, as text or as JSON `lines`; whether there are any."""
    from gsvc.codec.media.marked import read_marks  # late: a stream needs no FFmpeg

    marks = read_marks(source)
    if not marks:
        return False
    if lines is not None:
        fields = [{**asdict(mark), "source_type": SOURCE_TYPE} for mark in marks]
        lines.put("decoded", source=source, marks=fields)
        return True
    for mark in marks:
        print(f"{source}: decoded by gsvc {mark.version}")
        print(f"  {'synthetic':<18} yes: in part drawn by trained models ({_models(mark)})")
        print(f"  {'source type':<18} {SOURCE_TYPE}")
    print(f"  {'proof':<18} none: a mark can be removed, and anyone can write one")
    return True


def _models(mark: Mark) -> str:
    refiner = [f"{mark.backend}, steps {mark.steps}"] * bool(mark.steps)
    motion = [mark.motion] * (mark.motion != "dis")
    return "; ".join(refiner + motion)
