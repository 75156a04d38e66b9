"""The first tables: the headline, and which metrics a slideshow wins."""

from collections.abc import Iterator

from gsvc.eval.summary.recorded import PRIMARY
from gsvc.eval.summary.slideshow import SlideshowClip, SlideshowTest
from gsvc.eval.summary.summarise import Summary
from gsvc.eval.summary.table import NONE, Table, percent, pooled_text, protocol

HEADLINE_TITLE = "Headline: the worse of two BD-rates against SVT-AV1"
SLIDESHOW_TITLE = "Slideshow test: BD-rate of holding key pictures against SVT-AV1"


def headline_table(summary: Summary) -> Table:
    """Every curve's BD-rates by the judges, and the worse one."""
    rows = [
        [
            row.curve,
            NONE if row.worse is None else f"{percent(row.worse)} ({row.judge})",
            *(pooled_text(row.rates[j]) if j in row.rates else NONE for j in PRIMARY),
        ]
        for row in summary.headline.rows
    ]
    note = (
        "BD-rate in per cent (negative: fewer bits at equal quality) against SVT-AV1's lower hull, "
        "pooled over clips by each judge, with its 95 % bootstrap interval over clips and, in "
        f"brackets, how many of {len(summary.frames)} clips have one; the headline is the worse of "
        f"them. {' '.join([*headline_gaps(summary), *warnings(summary), protocol(summary)])}"
    )
    return Table(HEADLINE_TITLE, note, ["curve", "headline", *PRIMARY], rows)


def headline_gaps(summary: Summary) -> Iterator[str]:
    """A sentence for each judge that is missing in the run, and one where the anchor is."""
    for judge, why in summary.headline.missing.items():
        yield f"No headline without {judge}: {why}."
    if not summary.headline.rows and len(summary.headline.missing) < len(PRIMARY):
        yield f"No headline without points of {summary.headline.anchor} and of another codec."


def warnings(summary: Summary) -> Iterator[str]:
    """A sentence for each judge of the headline that fails the slideshow test."""
    for test in summary.slideshow:
        if test.metric in PRIMARY and test.passes is False:
            assert test.pooled is not None
            yield (
                f"WARNING: by {test.metric} a slideshow wins ({percent(test.pooled.mean)} % bits): "
                "it must not stand alone."
            )


def slideshow_table(summary: Summary) -> Table:
    """A row for each metric, a column for each clip."""
    tests = summary.slideshow
    clips = list(dict.fromkeys(one.clip for test in tests for one in test.clips))
    rows = [
        [
            test.metric,
            {True: "passes", False: "fails", None: "not known"}[test.passes],
            pooled_text(test.pooled),
            ", ".join(test.won) or "none",
            *(_clip(test, clip) for clip in clips),
        ]
        for test in tests
    ]
    note = (
        "Frames that hold the last key picture, against SVT-AV1's lower hull: BD-rate in per cent, "
        "negative where the slideshow wins. Where they share no quality, the better one at equal "
        "bits wins. A metric passes if the slideshow loses on the clips that move, pooled, "
        "or without any BD-rate on each; a clip moves if from one frame to the next at least 1 % "
        "of its pixels move by half a pixel at 288 lines, and is marked (still) if it does not. "
        f"{protocol(summary)}"
    )
    header = ["metric", "verdict", "moving clips, pooled", "slideshow wins on", *clips]
    return Table(SLIDESHOW_TITLE, note, header, rows)


def _clip(test: SlideshowTest, clip: str) -> str:
    return next((_cell(one) for one in test.clips if one.clip == clip), NONE)


def _cell(one: SlideshowClip) -> str:
    outcome = {True: ", wins", False: ", loses", None: ""}[one.wins]
    text = f"{one.note}{outcome}" if one.rate is None else percent(one.rate)
    return text if one.moves else f"{text} (still)"
