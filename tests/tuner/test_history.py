"""What `load_history` takes: the records of a log, not its path."""

import pytest

from autotune.errors import TunerError
from autotune.tuner import AutoTuner, GATuner, GridSearchTuner, RandomTuner
from autotune.tuner.xgboost_tuner import XGBTuner
from tests.tuner.doubles import loop_task


@pytest.mark.parametrize("tuner", [AutoTuner, GATuner, GridSearchTuner, RandomTuner, XGBTuner])
@pytest.mark.parametrize("wrong", ["a.log", b"a.log", None, 5, [1], [(1, 2)]])
def test_what_is_no_record_is_refused_by_every_tuner(tuner, wrong):
    with pytest.raises(TunerError, match=r"load_history\(data_set=...\): expected pairs of input"):
        tuner(loop_task()).load_history(wrong)


@pytest.mark.parametrize("tuner", [AutoTuner, RandomTuner, XGBTuner])
def test_an_empty_history_is_one(tuner):
    one, other = (tuner(loop_task(), seed=0) for _ in range(2))
    one.load_history(iter([]))
    first, second = ([c.index for c in each.next_batch(4)] for each in (one, other))
    assert first == second
