"""`VideoReceiver.analysis`: what a live stream shows, without drawing it."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import pytest

import gsvc
from gsvc import FrameAnalysis
from gsvc.codec.network.live_decoder import ArrivedPacket, LiveAnalysis
from live import PATIENT, free_port, listening, run, socket_of
from squares import Eye, is_on_square, square_pictures

FORM = gsvc.VideoFormat(320, 192, Fraction(1, 25), Fraction(25))
SETTINGS = gsvc.EncoderSettings(
    level=2, preset="fast", low_delay=True, objects=True, detector=Eye()
)
COUNT = 60


def frames() -> Iterator[gsvc.Frame]:
    return (gsvc.Frame(picture, n) for n, picture in enumerate(square_pictures(COUNT)))


def right(told: list[FrameAnalysis], shift: int = 0) -> int:
    """In how many frames the square is told where it is."""
    return sum(
        is_on_square(one.box, frame.frame + shift) for frame in told for one in frame.objects
    )


@pytest.mark.parametrize("scheme", ["udp", "tcp"])
@pytest.mark.parametrize("objects", [True, False])
def test_a_receiver_tells_what_it_receives(scheme: str, objects: bool) -> None:
    async def main() -> None:
        port = free_port(socket_of(scheme))
        receiver = gsvc.VideoReceiver(
            f"{scheme}://@127.0.0.1:{port}", gsvc.ReceiveSettings(reorder=PATIENT)
        )
        encoder = gsvc.Encoder(FORM, replace(SETTINGS, objects=objects))
        sender = gsvc.VideoSender(
            f"{scheme}://127.0.0.1:{port}", encoder, gsvc.SendSettings(realtime=False)
        )
        told: list[FrameAnalysis] = []

        async def receive() -> None:
            settings = None if objects else gsvc.AnalysisSettings(detector="moving")
            async for frame in receiver.analysis(settings):
                told.append(frame)

        receiving = asyncio.create_task(receive())
        await listening(port, socket_of(scheme))
        await sender.run(frames())
        await receiving
        assert [frame.frame for frame in told] == list(range(COUNT))
        assert {one.kind for frame in told for one in frame.objects} == {
            "square" if objects else "moving"
        }
        assert right(told) > 0.8 * COUNT

    run(main())


def arrivals(settings: gsvc.EncoderSettings, forced: int | None = None) -> list[ArrivedPacket]:
    with gsvc.Encoder(FORM, settings) as encoder:
        packets = []
        for number, frame in enumerate(frames()):
            if number == forced:
                encoder.force_keyframe()
            packets += encoder.encode(frame)
        packets += encoder.flush()
    return [ArrivedPacket(1, encoder.header, packet, 0.0) for packet in packets]


def told_of(given: list[ArrivedPacket]) -> tuple[LiveAnalysis, list[FrameAnalysis]]:
    live = LiveAnalysis(None, gsvc.Limits.restrictive())
    told = [frame for arrival in given for frame in live.frames(arrival)]
    return live, told + list(live.flush())


def test_who_joins_reads_objects_from_there_on() -> None:
    given = arrivals(SETTINGS, forced=20)
    keys = [n for n, one in enumerate(given) if one.packet.is_intra]
    assert given[keys[1] + 1].packet.type == gsvc.PacketType.OBJECTS
    _, told = told_of(given[keys[1] :])
    assert {one.kind for frame in told for one in frame.objects} == {"square"}
    assert len(told) == COUNT  # the run that waited begins before the picture


def test_what_is_lost_is_left_out() -> None:
    given = arrivals(SETTINGS)
    objects = [n for n, one in enumerate(given) if one.packet.type == gsvc.PacketType.OBJECTS]
    assert len(objects) >= 3
    live, told = told_of([one for n, one in enumerate(given) if n != objects[1]])
    assert live.damaged and len(told) < COUNT


def test_a_task_is_no_stream_for_a_network() -> None:
    encoder = gsvc.Encoder(FORM, gsvc.EncoderSettings(task="motion"))
    with pytest.raises(gsvc.ConfigError, match="objects beside pictures"):
        gsvc.VideoSender("tcp://127.0.0.1:9", encoder)


def test_a_detector_that_the_stream_has_nothing_for_is_refused() -> None:
    live = LiveAnalysis(gsvc.AnalysisSettings(detector="objects"), gsvc.Limits())
    with pytest.raises(gsvc.ConfigError, match="objects=True"):
        [f for one in arrivals(replace(SETTINGS, objects=False)) for f in live.frames(one)]
