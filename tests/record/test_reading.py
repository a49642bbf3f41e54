"""What reading a log costs, and what it does not believe."""

import gc
import json
import sys
from collections import Counter

import pytest

from autotune.errors import RecordError
from autotune.measure.types import MeasureResult
from autotune.record import LogReader, best_of, decode, encode, load_from_file
from autotune.record.messages import MESSAGE_LIMIT
from tests.record.records import TVM_ROW, good, make_config, make_input, row


@pytest.mark.parametrize("cost", [0, 0.0, 1e-320, 5e-324, 1e-13, -1e-6])
def test_a_time_in_which_nothing_runs_is_none_and_never_wins(cost):
    with pytest.raises(RecordError, match="a trial that did not fail has times"):
        decode(row(result=[[cost], 0, 1.0, 1.0]))
    slow, impossible = (make_input(config=make_config(i, k=i)) for i in range(2))
    best = best_of([(impossible, good(cost)), (slow, good(1.0)), (impossible, good(cost))])
    assert best[0] is slow
    assert MeasureResult((cost,), 0, 1.0, 1.0).seconds == float("inf")


def test_times_that_have_no_mean_are_none():
    for costs in ([1e308, 1e308], [10**308, 10**308], [1.7e308, 1e-6, 1.7e308]):
        with pytest.raises(RecordError, match="a trial that did not fail has times"):
            decode(row(result=[costs, 0, 1.0, 1.0]))
    _, result = decode(row(result=[[1, 0.5], 0, 1.0, 1.0]))
    assert result.costs == (1.0, 0.5)
    assert all(isinstance(cost, float) for cost in result.costs)


def test_a_file_is_read_ahead_and_a_stream_line_by_line(tmp_path):
    asked = []

    def lines():
        for number in range(5):
            asked.append(number)
            yield TVM_ROW + "\n"

    stream = iter(LogReader(lines(), "a stream"))
    next(stream)
    assert asked == [0]
    log = tmp_path / "x.log"
    rows = [TVM_ROW, "garbage", *[TVM_ROW] * 2500, '{"torn']
    log.write_text("\n".join(rows))
    with log.open() as file:
        reader = LogReader(file, "x.log", quiet=True, ahead=1000)
        assert len(list(reader)) == 2501
    assert [(one.line, one.torn) for one in reader.problems] == [(2, False), (2503, True)]
    assert reader.report().startswith("log x.log: 2 of 2503 records could not be read")
    assert gc.isenabled()


def test_the_spread_of_one_sample_is_not_known_and_the_record_is_good():
    extra = {"ci95": [1.0, 1.0], "noise_floor": None, "samples": 1, "resources": None}
    _, result = decode(encode(make_input(), good(1.0, **extra)))
    assert result.extra == {"ci95": [1.0, 1.0], "noise_floor": None, "samples": 1}
    assert result.spread is None
    for key in ("race", "roofline"):
        with pytest.raises(RecordError, match=f"'{key}' is"):
            decode(encode(make_input(), good(1.0, **{key: None})))


def test_a_message_keeps_its_head_and_its_tail():
    message = "error: first\n" + "x" * 10**6 + "\nlast words"
    text = encode(make_input(), MeasureResult((), 3, 1.0, 1.0, message))
    assert len(text) < MESSAGE_LIMIT + 1000
    kept = decode(text)[1].error_msg
    assert kept.startswith("error: first\n")
    assert kept.endswith("\nlast words")
    assert "characters left out" in kept
    long = decode(row(result=[[1e9], 3, 1.0, 1.0], error_msg=message))[1].error_msg
    assert long == kept


def test_what_many_rows_share_is_read_once(tmp_path):
    log = tmp_path / "x.log"
    log.write_text((TVM_ROW + "\n") * 2)
    (first, _), (second, _) = load_from_file(log)
    assert first.task is second.task
    assert first.config is not second.config
    assert first.config["tile_f"] is second.config["tile_f"]


def test_equal_looking_arguments_stay_different(tmp_path):
    log = tmp_path / "x.log"
    args = ([1], [1.0], [True], ["1"], [[1]])
    log.write_text("".join(row(input=["llvm", "t", one, {}]) + "\n" for one in args))
    read = [inp.task.args for inp, _ in load_from_file(log)]
    assert list(map(repr, read)) == ["(1,)", "(1.0,)", "(True,)", "('1',)", "((1,),)"]


def test_reading_another_row_takes_few_calls_beyond_reading_its_json(tmp_path):
    log, calls = tmp_path / "x.log", Counter()

    def calls_for(rows):
        text = json.loads(TVM_ROW)
        with log.open("w") as file:
            for i in range(rows):
                text["config"]["index"], text["result"][0] = i, [1e-6 * (i + 1)]
                file.write(json.dumps({**text, "ci95": [1.0, 2.0], "noise_floor": 0.1}) + "\n")
        calls.clear()
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, what: calls.update((event,)))
        try:
            assert sum(1 for _ in load_from_file(log)) == rows
        finally:
            sys.setprofile(before)
        return calls["call"], calls["c_call"]

    (few, few_c), (many, many_c) = calls_for(100), calls_for(600)
    assert many - few < 45 * 500
    assert many_c - few_c < 60 * 500
