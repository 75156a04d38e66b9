"""Structure-aware fuzzing in seconds: each parser gets forged input and gives a value or one typed error.

`fuzz_run` does the same for millions of inputs.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz_targets import TARGETS, Target
from gsvc.codec.errors import GsvcError

Randoms = st.randoms(use_true_random=False)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_forged_input_is_read_or_refused(target: Target) -> None:
    @settings(
        max_examples=max(5, 100 // target.cost),
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(Randoms)
    def run(rng) -> None:  # type: ignore[no-untyped-def]
        try:
            target.check(target.make(rng))
        except GsvcError as error:
            assert "\n" not in str(error)

    run()
