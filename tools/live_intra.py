"""Is a periodic intra picture worth its bits? `python tools/live_intra.py CLIP`

A clip is sent live with low delay at 12 kbit/s, by gsvc's RTP sender and receiver in virtual time,
over links of 40 ms that lose no datagram, 5 or 20 % in both directions, with redundancy and parity,
and bare. Intra pictures come every four seconds and on request, or on request alone. Frames are
shown 1.5 s after their capture; one that is concealed or comes later is wrong. Of a run of wrong
frames, the time to heal is its length.
"""

import argparse
import sys
from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby, product

import numpy as np

from follow_network import FollowSession, Sent, there_and_back
from gsvc.codec.api.decoder import Decoder
from gsvc.codec.api.decoder_settings import DecoderSettings
from gsvc.codec.bitstream.frames import Picture, VideoFormat
from gsvc.codec.bitstream.header import Header
from gsvc.codec.network.rtp import WireSettings
from gsvc.codec.network.rtp_session import RtpSender
from gsvc.codec.network.stats import IP_UDP_BYTES
from gsvc.datasets.clips.clip_reader import TestClip, load_clip
from gsvc.eval.layout import markdown
from gsvc.eval.metrics import find_metric
from gsvc.eval.metrics.fidelity import psnr_y
from network_traces import SLOT, Trace

_DEADLINE = 1.5
_BARE = WireSettings(redundancy=0, parity_span=0)
_CASES = (0.0, None), (0.05, None), (0.2, None), (0.05, _BARE), (0.2, _BARE)
"""Share of datagrams lost, and how packets become datagrams; None: as usual."""
_WAYS = {"every 4 s": False, "on request": True}
HEADER = ("loss", "intra pictures", "their number", "kbit/s", "on the wire", "frames wrong",
          "to heal: mean", "longest", "PSNR-Y, dB", "CVVDP")  # fmt: skip
FORMATS = ("{}", "{:.1f}", "{:.1f}", "{:.1f} %", "{:.2f} s", "{:.2f} s", "{:.2f}", "{:.3f}")


class LiveSession(FollowSession):
    """One that stays at its rate."""

    def __init__(
        self,
        video: VideoFormat,
        trace: Trace,
        bitrate: float,
        wire: WireSettings | None,
        *,
        on_request: bool,
    ) -> None:
        super().__init__(video, trace, "fixed", bitrate)
        self._rtp = RtpSender(self.header, wire)
        self._encoder.keyframes_on_request = on_request

    @property
    def bytes_sent(self) -> tuple[float, int]:
        """Of packets, and of datagrams with all headers."""
        datagrams = self._rtp.bytes + IP_UDP_BYTES * self._rtp.datagrams
        return sum(self._meter.bits.values()) / 8, datagrams


def shown_of(header: Header, sent: Sent) -> tuple[list[bool], list[Picture | None]]:
    """Whether each frame is wrong, and what is shown at its time: None before the first."""
    rate = float(header.format.frame_rate)
    wrong, shown = [True] * sent.frames, list[Picture | None]([None] * sent.frames)
    with Decoder(header, DecoderSettings(steps=0, conceal=True)) as decoder:
        for at, packet in sent.came:
            for frame in decoder.decode(packet):
                if at <= frame.pts / rate + _DEADLINE:
                    wrong[frame.pts], shown[frame.pts] = frame.concealed, frame.pixels
    for number in range(1, sent.frames):
        if shown[number] is None:
            shown[number] = shown[number - 1]
    return wrong, shown


def row_of(
    pictures: Sequence[Picture],
    rate: Fraction,
    case: tuple[float, WireSettings | None],
    way: str,
    options: argparse.Namespace,
) -> tuple[str, ...]:
    """A line of the table."""
    (loss, wire), seconds = case, options.seconds
    height, width = pictures[0].shape[:2]
    capacity = np.full(round((seconds + 5) / SLOT), 1e6)
    trace = Trace(capacity, delay=0.04, queue=100_000, loss=loss)
    video, asks = VideoFormat(width, height, 1 / rate, rate), _WAYS[way]
    session = LiveSession(video, trace, options.bitrate, wire, on_request=asks)
    session.reports_lost = loss
    sent = session.run(there_and_back(pictures), seconds)
    wrong, shown = shown_of(session.header, sent)
    pairs = [
        (source, picture)
        for source, picture in zip(there_and_back(pictures), shown, strict=False)
        if picture is not None
    ]
    source_frames, shown_frames = zip(*pairs, strict=True)
    clip = TestClip("live", source_frames, rate)
    values = [
        sum(packet.is_intra for _, packet in sent.came),
        *(8 * size / seconds / 1000 for size in session.bytes_sent),
        100 * np.mean(wrong),
        *_healing(wrong, float(rate)),
        psnr_y(source_frames, shown_frames).mean(),
        np.nanmean(find_metric("cvvdp").measure(clip, [shown_frames], range(len(pairs)))),
    ]
    cells = (form.format(value) for form, value in zip(FORMATS, values, strict=True))
    return (f"{loss:.0%}{', bare' if wire else ''}", way, *cells)


def _healing(wrong: Sequence[bool], rate: float) -> tuple[float, float]:
    """Mean and longest run of wrong frames, in seconds."""
    runs = [len(list(run)) / rate for is_wrong, run in groupby(wrong) if is_wrong] or [0.0]
    return float(np.mean(runs)), max(runs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[1])
    add = parser.add_argument
    add("clip", metavar="CLIP", help="a video")
    add("--lines", type=int, default=192, help="its short side (%(default)s)")
    add("--seconds", type=float, default=60.0, help="of each session (%(default)g)")
    add("--bitrate", type=float, default=12_000.0, help="bits per second (%(default)g)")
    add("--cases", type=int, default=len(_CASES), help="only the first ones (%(default)s)")
    options = parser.parse_args()
    pictures, rate = load_clip(options.clip, None, options.lines)
    rows = []
    for case, way in product(_CASES[: options.cases], _WAYS):
        rows.append(row_of(pictures, rate, case, way, options))
        print(*rows[-1], file=sys.stderr, flush=True)
    print(markdown(HEADER, rows))


if __name__ == "__main__":
    main()
