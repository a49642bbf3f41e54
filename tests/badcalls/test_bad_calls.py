"""Every public function refuses what it cannot use, before anything is done with it.

Each of the calls is right but for one argument. It must raise an `AutotuneError` that names the
argument, says what was expected, and shows what came: no bare exception, no silence.
"""

import random
import re

import pytest

from autotune.errors import AutotuneError
from autotune.utils.check import shown
from tests.badcalls import (
    defining,
    expressing,
    modules,
    networks,
    operators,
    running,
    scheduling,
)

APIS = [
    *defining.SPACES,
    *defining.TASKS,
    *defining.KERNELS,
    *running.MEASURING,
    *running.TUNING,
    *running.RECORDS,
    *running.ARRAYS,
    *modules.MODULES,
    *expressing.EXPRESSIONS,
    *operators.TOPI,
    *networks.NETWORKS,
    *scheduling.SCHEDULING,
]
CALLS = [
    pytest.param(api, argument, value, id=f"{api.name}-{argument}-{number}")
    for api in APIS
    for argument, values in api.bad.items()
    for number, value in enumerate(values)
]
# Those that are always run; the seed decides which of the others are.
SEED, SHARE = 9, 0.2
EXPECTS = re.compile(
    r"must|expected|needs?\b|takes|did you mean|out of range|defined so far|the space has"
    r"|registered|are built for|not valid JSON"
)


def chosen():
    """Return at least 300 calls: one of each argument, and a seeded share of the others."""
    rng = random.Random(SEED)
    first = {(call.values[0].name, call.values[1]): call for call in rng.sample(CALLS, len(CALLS))}
    kept = {call.id for call in first.values()} | {c.id for c in CALLS if rng.random() < SHARE}
    return [call for call in CALLS if call.id in kept]


def shows(value, text):
    return "got" in text or shown(value) in text or str(value) in text


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_the_call_is_right_when_all_its_arguments_are(api):
    api.call(**api.good())


@pytest.mark.parametrize(("api", "argument", "value"), chosen())
def test_a_wrong_argument_is_an_error_that_names_it(api, argument, value):
    with pytest.raises(AutotuneError) as caught:
        api.call(**{**api.good(), argument: value})
    text = str(caught.value)
    assert api.word(argument) in text
    assert shows(value, text)
    assert EXPECTS.search(text)


def test_there_are_at_least_three_hundred_of_them():
    assert len(chosen()) >= 300
