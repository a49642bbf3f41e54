"""Numbers of things, as people read them."""

import pytest

from autotune.tuner.loop.stop import Stop
from autotune.utils.quantities import counted


@pytest.mark.parametrize(("number", "said"), [(0, "0 trials"), (1, "1 trial"), (20, "20 trials")])
def test_one_thing_is_no_plural(number, said):
    assert counted(number, "trial") == said


def test_a_run_of_one_trial_ends_in_the_singular():
    assert (Stop(1).all_made, Stop(2).all_made) == (
        "the one trial was made",
        "all 2 trials were made",
    )
