"""Memory, threads and files stay the same over long video and many coders; `soak` takes hours."""

import pytest

from soak import open_and_close, stream_for, usage


@pytest.mark.slow
@pytest.mark.parametrize("low_delay", [True, False])
def test_a_long_stream_takes_no_more_than_a_short_one(low_delay: bool) -> None:
    stream_for(300, low_delay=low_delay)
    before = usage()
    assert stream_for(1800, low_delay=low_delay) == 1800
    after = usage()
    assert after.memory - before.memory < 36  # MB: less than a picture for each frame more
    # Fewer is well too: what ran before this test may end during it.
    assert after.threads <= before.threads and after.files <= before.files


@pytest.mark.slow
def test_coders_that_were_closed_are_gone() -> None:
    open_and_close(30)
    before = usage()
    open_and_close(120)
    after = usage()
    assert after.memory - before.memory < 60
    # Fewer is well too: what ran before this test may end during it.
    assert after.threads <= before.threads and after.files <= before.files
