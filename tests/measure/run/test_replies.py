"""Answers of processes: what is read is what was written, and nothing else is taken for one."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.measure.build import job as build_job
from autotune.measure.build.job import Compiled, NotCompiled
from autotune.measure.process.died import Died
from autotune.measure.run import replies
from autotune.measure.run.host_load import HostUse
from autotune.measure.run.replies import (
    Computed,
    Failed,
    Raced,
    Ran,
    Rated,
    Unable,
)
from autotune.measure.types import MeasureErrorNo
from autotune.runtime import Ceilings, summarize
from autotune.runtime.timing import Clocks

CLOCKS = Clocks(sm_mhz=1500, memory_mhz=2600, temperature_c=40, slowed_by=("power",))
seconds = st.floats(min_value=1e-9, max_value=10.0)
timings = st.builds(
    lambda samples, number, clocks: summarize(samples, number, [clocks] * len(samples)),
    st.lists(seconds, min_size=1, max_size=5),
    st.integers(1, 100),
    st.sampled_from([None, CLOCKS]),
)
hosts = st.builds(HostUse, seconds, st.integers(1, 64), seconds, seconds, seconds, seconds)
phases = st.dictionaries(st.sampled_from(["inputs", "load", "time"]), seconds)
answers = st.one_of(
    st.builds(Ran, timings, st.booleans(), hosts, phases),
    st.builds(Raced, st.lists(timings, max_size=3).map(tuple), hosts),
    st.just(Computed()),
    st.just(Rated(Ceilings("paper", ((1024, 1e12),), {"float32": 1e12}))),
    st.builds(Failed, st.sampled_from(MeasureErrorNo), st.text(), st.booleans(), phases),
    st.builds(Died, st.text(), st.booleans(), st.none() | st.integers(-64, 255)),
    st.builds(Unable, st.text()),
)
built = st.one_of(
    st.builds(Compiled, st.text(), st.dictionaries(st.text(), st.integers()), st.text()),
    st.builds(
        NotCompiled,
        st.sampled_from(["refused", "timeout", "crashed", "missing", "unknown"]),
        st.text(),
        st.booleans(),
    ),
)
garbage = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["reply", "reason", "timing", "message", "resources"]),
            inner,
            max_size=3,
        )
    ),
)


@given(answers)
def test_an_answer_crosses_the_border_unchanged(answer):
    assert replies.reply_of(json.loads(json.dumps(replies.to_json(answer)))) == answer


@given(built)
def test_an_answer_of_a_compiler_crosses_the_border_unchanged(answer):
    assert build_job.reply_of(json.loads(json.dumps(build_job.to_json(answer)))) == answer


@pytest.mark.parametrize("read", [replies.reply_of, build_job.reply_of])
def test_garbage_is_no_answer(read, pytestconfig):
    @settings(max_examples=100 if pytestconfig.getoption("--all-cases") else 30)
    @given(data=garbage)
    def refused(data):
        with pytest.raises(ValueError, match="no reply of a process"):
            read(data)

    refused()


@pytest.mark.many_cases
@pytest.mark.parametrize("name", ["Ran", "Raced", "Rated", "Failed", "Died", "Unable"])
@given(data=st.dictionaries(st.sampled_from(["message", "timing", "host"]), garbage))
def test_an_answer_that_lacks_something_is_none(name, data):
    data.pop("message", None)
    with pytest.raises(ValueError, match="no reply of a process"):
        replies.reply_of({**data, "reply": name})
