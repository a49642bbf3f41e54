"""What is written as T4 fits its schema, and is read again as what it was."""

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import RecordError
from autotune.interchange import import_files, read_t4, records_of, to_t4, write_t4
from autotune.measure.types import MeasureErrorNo, MeasureResult
from tests.interchange.t4_schema import RESULTS
from tests.record.records import make_config, make_input

DATA = Path(__file__).parents[1] / "data" / "interchange"
NUMBERS = st.sampled_from([*MeasureErrorNo])
VALUES = st.one_of(
    st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(),
    st.text(max_size=5), st.none(),    st.lists(st.integers(0, 9), max_size=3),
)  # fmt: skip


def checked(pairs):
    data = to_t4(pairs)
    jsonschema.validate(json.loads(json.dumps(data, allow_nan=False)), RESULTS)
    return data


def tried(index, result, task="gemm", **knobs):
    return make_input(
        task, (64, "float32"), "cuda -arch=sm_90", make_config(index, **knobs)
    ), result


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(NUMBERS, VALUES, st.floats(1e-9, 1e3)), min_size=1, max_size=4))
def test_any_trials_fit_the_schema_and_come_back(trials):
    pairs = []
    for i, (number, value, seconds) in enumerate(trials):
        costs = () if number else (seconds,)
        words = "" if not number else "why\nit failed"
        result = MeasureResult(costs, int(number), 0.5, 1.7e9, words, {"noise_floor": 0.02})
        pairs.append(tried(i, result, k=value, i=i))
    data = checked(pairs)
    again = records_of(_read(data))
    for (inp, result), (inp2, result2) in zip(pairs, again, strict=True):
        assert inp2.task == inp.task
        assert inp2.config.to_json_dict()["entity"] == inp.config.to_json_dict()["entity"]
        assert result2.error_no == result.error_no
        assert result2.error_msg == result.error_msg
        assert result2.costs == pytest.approx(result.costs)
        assert result2.timestamp == pytest.approx(result.timestamp)
        if result.ok:
            assert result2.spread == pytest.approx(result.spread)


def _read(data):
    from autotune.interchange.t4 import trials_of

    return trials_of(json.loads(json.dumps(data)), Path("x.json"))


@pytest.mark.parametrize("path", sorted(DATA.rglob("kernel_tuner/*.json")), ids=lambda p: p.stem)
def test_a_cache_goes_through_t4_without_a_loss(path, tmp_path):
    (found,) = import_files([path])
    write_t4(found.records, tmp_path / "x.json")
    jsonschema.validate(json.loads((tmp_path / "x.json").read_text()), RESULTS)
    again = records_of(read_t4(tmp_path / "x.json"))
    for (inp, result), (inp2, result2) in zip(found.records, again, strict=True):
        assert (inp2.target, inp2.task) == (inp.target, inp.task)
        assert inp2.config.recorded == inp.config.recorded
        assert (result2.error_no, result2.error_msg) == (result.error_no, result.error_msg)
        assert result2.seconds == pytest.approx(result.seconds)
        assert result2.evidence.samples == result.evidence.samples


def test_splits_are_written_as_lists():
    config = {"index": 0, "code_hash": None, "entity": [["tile", "sp", [-1, 4]]]}
    inp = make_input("gemm", (1,), "c", config)
    data = checked([(inp, MeasureResult((1e-3,), 0, 1.0, 1.7e9))])
    assert data["results"][0]["configuration"] == {"tile": [-1, 4]}
    assert data["results"][0]["times"]["runtimes"] == [1.0]
    assert "compute_api" not in data["metadata"]


def test_several_workloads_are_refused():
    result = MeasureResult((1e-3,), 0, 1.0, 1.7e9)
    with pytest.raises(RecordError, match="one workload, got 2"):
        to_t4([tried(0, result, k=1), tried(0, result, "conv", k=1)])
    with pytest.raises(RecordError, match="one workload, got 0"):
        to_t4([])


def test_a_file_that_cannot_be_written_is_said_and_nothing_is_left(tmp_path):
    result = MeasureResult((1e-3,), 0, 1.0, 1.7e9)
    with pytest.raises(RecordError, match="cannot write"):
        write_t4([tried(0, result, k=1)], "/proc/nothing/x.json")
    with pytest.raises(RecordError, match="no time of a calendar"):
        write_t4([tried(0, result._replace(timestamp=1e300), k=1)], tmp_path / "x.json")
    assert not list(tmp_path.iterdir())
