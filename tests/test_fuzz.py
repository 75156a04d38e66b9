"""Structure-aware fuzzing in seconds: each parser reads forged input or raises one typed error.

`fuzz_run` does the same with millions of inputs.
"""

import random

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from fuzz_targets import TARGETS, Target
from gsvc import GsvcError

Randoms = st.randoms(use_true_random=False)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_forged_input_is_read_or_refused(target: Target) -> None:
    @settings(max_examples=max(5, 100 // target.cost), suppress_health_check=list(HealthCheck))
    @given(Randoms)
    def run(rng: random.Random) -> None:
        data = target.make(rng)
        try:
            target.check(data)
        except GsvcError as error:
            assert "\n" not in str(error)

    run()
