"""Records of the auto-scheduler: TVM's lines both ways, what we add, and what cannot be read."""

import copy
import hashlib
import json
import logging
import re
from pathlib import Path

import pytest

from autotune.auto_scheduler import measure_record as records
from autotune.auto_scheduler.measuring.measure_input import MeasureInput, RecordedTask
from autotune.auto_scheduler.records.best import decode_workload_key, workload_distance
from autotune.auto_scheduler.records.codec import decode, encode, encode_note
from autotune.auto_scheduler.search_task import SearchTask, recover_measure_input
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.auto_scheduler.transform_steps import STEPS, SplitStep
from autotune.auto_scheduler.workload_registry import WORKLOAD_FUNC_REGISTRY, register_workload
from autotune.errors import RecordError
from autotune.measure.types import MeasureErrorNo, MeasureResult
from autotune.record.reader import LogMissingError
from tests.auto_scheduler.graphs import conv2d_layer, matmul

DATA = Path(__file__).parents[2] / "data" / "auto_scheduler"
LOGS = ("conv2d.json", "matmul.json", "resnet-18-NHWC-B1-cuda.json")
EVERY_STEP = [
    ["CHW", 2, "local"],
    ["SP", 2, 0, 16, [4, 2], 1],
    ["SP", 2, 3, 16, [2], 0],
    ["FSP", 3, 0, 1, 2],
    ["RE", 3, [0, 1, 3, 2]],
    ["CHR", 0, "shared", [3]],
    ["FU", 1, [0, 1]],
    ["FFSP", 1, 0, [1], 1, 1],
    ["AN", 1, 0, 3],
    ["CA", 1, 3, 1],
    ["CR", 1],
    ["CI", 1],
    ["SA", 1, 0, 32, 1],
    ["PR", 4, 0, "auto_unroll_max_step$64"],
    ["RF", 3, 5, 2],
    ["ONL", 2, 64, 8],
]
OK = MeasureResult((1.5e-5,), 0, 1.25, 1700000000.75)


@pytest.fixture(autouse=True)
def _workloads():
    kept = dict(WORKLOAD_FUNC_REGISTRY)
    register_workload("conv2d_layer", conv2d_layer, override=True)
    register_workload("matmul", matmul, override=True)
    yield
    WORKLOAD_FUNC_REGISTRY.clear()
    WORKLOAD_FUNC_REGISTRY.update(kept)


def recorded(key="k", steps=EVERY_STEP, target="cuda"):
    return MeasureInput(RecordedTask(key, target), RecordedState.from_json(steps))


@pytest.mark.parametrize("name", LOGS)
def test_a_log_of_tvm_reads_whole_and_is_written_as_it_was(name):
    lines = [line for line in (DATA / name).read_text().splitlines() if line.startswith("{")]
    pairs = list(records.load_records(DATA / name))
    assert len(pairs) == len(lines)
    for (inp, result), line in zip(pairs, lines, strict=True):
        row = json.loads(line)
        assert inp.task.workload_key == row["i"][0][0]
        assert inp.state.to_json() == row["i"][1][1]
        assert list(result.costs) == row["r"][0]
        if row["v"] == "v0.6":
            assert encode(inp, result) == line


def test_every_kind_of_step_comes_back():
    inp = recorded()
    assert {row[0] for row in EVERY_STEP} == set(STEPS)
    again, result = decode(encode(inp, OK))
    assert again.state == inp.state
    assert again.key == inp.key
    assert result.costs == OK.costs
    assert [step.to_row() for step in again.state.transform_steps] == EVERY_STEP


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [[16, 64, 64]],
        [[16, 64, 64, 0, 0, 0, 0, 0], "llvm"],
        [[16, 64, 64, 0, 0, 0, 0, 0], "", 1],
        [[16, 64, 64, 0, 0, 0, 0, 0], "", 2, ["index"]],
    ],
)
def test_every_version_since_v02_reads(fields):
    key = json.dumps(["matmul", 8, 8, 8])
    row = {"i": [[key, "llvm -keys=cpu", *fields], [[], []]], "r": [[1e-3], 0, 1, 2], "v": "v0.x"}
    inp, _ = decode(json.dumps(row))
    task = recover_measure_input(inp).task
    assert isinstance(task, SearchTask)
    assert task.workload_key == key
    if fields:
        assert task.hardware_params.num_cores == 16
    if len(fields) > 1:
        assert str(task.target_host or "") == ("llvm -keys=cpu" if fields[1] else "")
    if len(fields) > 3:
        assert task.task_input_names == ["index"]


def test_a_state_of_a_record_gets_its_loops_back():
    (inp, _), *_ = records.load_records(DATA / "conv2d.json")
    whole = recover_measure_input(inp, rebuild_state=True)
    assert "blockIdx.x i0.0@i1.0@i2.0@i3.0@ (0,28)" in str(whole.state)
    assert whole.key == inp.key
    trial = whole.trial()
    assert trial.key == inp.key
    assert trial.task == whole.task


def test_what_we_know_beyond_tvm_stands_in_a_comment_and_comes_back():
    extra = {"kernel_hash": "ab12", "ci95": [1.4e-5, 1.6e-5], "noise_floor": 0.01}
    exact = OK._replace(costs=(1.23456789e-5,), extra=extra)
    inp = recorded()
    note, line = encode_note(inp, exact), encode(inp, exact)
    assert note.startswith("#")
    assert "extra" not in line
    _, result = decode(line, note)
    assert result == exact
    assert decode(line)[1].costs == (1.23457e-5,)
    assert decode(note) is None


def test_a_comment_of_another_record_adds_nothing():
    exact = OK._replace(extra={"kernel_hash": "ab12"})
    note = encode_note(recorded(steps=[["CI", 1]]), exact)
    _, result = decode(encode(recorded(), OK), note)
    assert not result.extra


def test_a_failure_is_written_as_tvm_does_and_keeps_its_message(tmp_path):
    failed = MeasureResult((), MeasureErrorNo.COMPILE_DEVICE, 0.5, 3.0, "nvcc: no\nroom")
    log = tmp_path / "log.json"
    records.save_records(log, [recorded()], [failed])
    text = log.read_text()
    assert '"r": [[1e+10], 3, 0.5, 3]' in text
    ((_, result),) = records.load_records(log)
    assert not result.ok
    assert result.costs == ()
    assert result.error_msg == "nvcc: no\nroom"


UNREADABLE = [
    "garbage",
    '{"i": [["k", "cuda"], [[], [["XX", 1]]]], "r": [[1e-3], 0, 1, 2], "v": "v0.6"}',
    '{"i": [["k", "cuda"], [[], [["SP", 1, 0, 8, [0], 1]]]], "r": [[1e-3], 0, 1, 2]}',
    '{"i": [["k", "cuda"], [[], [["AN", 1, 0, 99]]]], "r": [[1e-3], 0, 1, 2]}',
    '{"i": [["k", "cuda"], [[], [["CI", -1]]]], "r": [[1e-3], 0, 1, 2]}',
    '{"i": [["k", "cuda"], [[], [["CI"]]]], "r": [[1e-3], 0, 1, 2]}',
    '{"i": [["k", "cuda"], [[], [["CI", true]]]], "r": [[1e-3], 0, 1, 2]}',
    '{"i": [["k", "nonsense"], [[], []]], "r": [[1e-3], 0, 1, 2]}',
    '{"i": [["k", "cuda", [1, "x"]], [[], []]], "r": [[1e-3], 0, 1, 2]}',
    '{"i": [["k", "cuda", [], "", 7], [[], []]], "r": [[1e-3], 0, 1, 2]}',
    '{"i": [["k", "cuda", [], "nonsense"], [[], []]], "r": [[1e-3], 0, 1, 2]}',
    '{"i": [["k", ""], [[], []]], "r": [[1e-3], 0, 1, 2]}',
    '{"i": [["k", "cuda", [], "", true], [[], []]], "r": [[1e-3], 0, 1, 2]}',
    '{"i": [["k", "cuda", [], "", 0, "abc"], [[], []]], "r": [[1e-3], 0, 1, 2]}',
    '{"i": [["k", "cuda", [1, 2, 3, 4, 5, 6, 7, 8, 9]], [[], []]], "r": [[1e-3], 0, 1, 2]}',
    '{"i": [["k", "cuda"], [[], []]], "r": [[], 0, 1, 2]}',
    '{"i": [["k", "cuda"], [[], []]], "r": [[NaN], 0, 1, 2]}',
    '{"i": [["k", "cuda"], [[], []]]}',
    '{"i": [["k", "cuda"], 5], "r": [[1], 0, 1, 2]}',
    '{"i": 5, "r": [[1], 0, 1, 2]}',
    "[" * 10000,
    '{"input": ["cuda", "x", [], {}], "config": {}, "result": []}',
    '{"i": [["k", "cuda"], [[], [["CI", 1]',
]


def test_equal_rows_of_a_log_are_read_once():
    rows = [["SP", 2, 0, 64, [4, 2], 1], ["AN", 2, 0, 3]]
    one, other = (RecordedState.from_json(copy.deepcopy(rows)) for _ in range(2))
    assert all(a is b for a, b in zip(one.transform_steps, other.transform_steps, strict=True))
    assert one.to_json() == rows
    digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    assert one.key == "state-" + digest[:16]
    like = [["SP", 2, 0, 64, [4, 2], 1], ["AN", 2, 0, True]]
    with pytest.raises(RecordError, match="expected an int"):
        RecordedState.from_json(like)


@pytest.mark.parametrize("line", UNREADABLE)
def test_an_unreadable_line_is_an_error_of_one_line(line):
    with pytest.raises(RecordError) as caught:
        decode(line)
    assert "\n" not in str(caught.value)


def test_unreadable_lines_are_reported_and_passed_over(tmp_path, caplog):
    log = tmp_path / "log.json"
    good = encode(recorded(), OK)
    log.write_text("# comment\n\n" + "\n".join([*UNREADABLE[:-1], good]) + "\n" + UNREADABLE[-1])
    with caplog.at_level(logging.WARNING, "auto_scheduler"):
        inputs, results = records.RecordReader(log).read_lines()
    assert len(inputs) == len(results) == 1
    (message,) = caplog.messages
    assert f"{len(UNREADABLE)} of {len(UNREADABLE) + 1} records could not be read" in message
    assert "line 3" in message


@pytest.mark.parametrize("name", ["tophub_cuda_v0.10.log", "tophub_arm_cpu_v0.02.log"])
def test_of_a_log_of_templates_it_is_said_what_reads_it(name, caplog):
    with caplog.at_level(logging.WARNING, "auto_scheduler"):
        assert not list(records.load_records(DATA.parent / "logs" / name))
    (message,) = caplog.messages
    assert "autotvm.record.load_from_file reads records of templates" in message


def test_a_long_log_is_read_line_by_line(tmp_path):
    """Nobody waits for the end of a log, whose last line is broken here."""
    log = tmp_path / "log.json"
    records.save_records(log, [recorded(key=str(i)) for i in range(3)], [OK] * 3)
    pairs = records.load_records(log)
    assert next(pairs)[0].task.workload_key == "0"
    with log.open("a") as file:
        file.write(encode(recorded(key="added meanwhile"), OK) + "\n")
    assert [inp.task.workload_key for inp, _ in pairs] == ["1", "2", "added meanwhile"]


def test_a_reader_gives_some_of_the_lines(tmp_path):
    log = tmp_path / "log.json"
    inputs = [recorded(key=str(i)) for i in range(5)]
    records.save_records(log, inputs, [OK] * 5)
    reader = records.RecordReader(log)
    for given, wanted in (({}, "01234"), ({"max_lines": 2, "skip_lines": 1}, "12")):
        found, _ = reader.read_lines(**given)
        assert "".join(inp.task.workload_key for inp in found) == wanted
    assert len(list(reader)) == 5
    with pytest.raises(LogMissingError):
        list(records.load_records(tmp_path / "none.json"))


def test_a_split_of_undecided_lengths_has_no_record():
    state = RecordedState((SplitStep(1, 0, 8, (None,)),))
    with pytest.raises(RecordError, match="undecided lengths"):
        encode(MeasureInput(RecordedTask("k", "cuda"), state), OK)


def test_lines_go_through_a_string():
    inp = recorded()
    line = records.dump_record_to_string(inp, OK)
    assert line.endswith("\n")
    again, result = records.load_record_from_string(line)
    assert (again.state, result.costs) == (inp.state, OK.costs)
    with pytest.raises(RecordError, match="a comment"):
        records.load_record_from_string("# x")


def result(seconds):
    return OK._replace(costs=(seconds,))


def test_the_best_record_is_of_the_workload_and_the_kind_of_target(tmp_path):
    log = tmp_path / "log.json"
    rows = [
        (recorded("a"), result(3e-3)),
        (recorded("a"), MeasureResult((), 4, 1.0, 1.0)),
        (recorded("a", steps=[["CI", 1]]), result(2e-3)),
        (recorded("b"), result(1e-3)),
        (recorded("a", target="llvm"), result(1e-4)),
    ]
    records.save_records(log, *zip(*rows, strict=True))
    inp, best = records.load_best_record(log, "a", "cuda -arch=sm_90")
    assert best.seconds == 2e-3
    assert inp.state.to_json() == [["CI", 1]]
    assert records.load_best(log)[1].seconds == 1e-4
    assert records.load_best(log, "c") == (None, None)


def test_the_winner_of_a_final_race_comes_before_what_it_was_raced_with(tmp_path):
    log = tmp_path / "log.json"
    lucky, steady = recorded("a"), recorded("a", steps=[["CI", 1]])
    records.save_records(log, [lucky, steady], [result(1e-3), result(1.1e-3)])
    race = {"candidates": [{"key": one.key, "index": 0} for one in (lucky, steady)]}
    won = result(1.2e-3)._replace(extra={"race": race})
    records.RecordToFile(log).raced(None, steady, won)
    inp, best = records.load_best_record(log, "a")
    assert inp.key == steady.key
    assert best.seconds == 1.2e-3
    assert len(list(records.load_records(log))) == 2


@pytest.mark.parametrize(
    ("wanted", "known", "distance"),
    [
        (["f", 8, [4, 4]], ["f", 8, [4, 4]], 1),
        (["f", 8, [4, 4]], ["f", 2, [2, 4]], 8),
        (["f", 0, 4], ["f", 0, 2], 2),
        (["f", 0], ["f", 2], float("inf")),
        (["f", 2], ["f", 0], float("inf")),
        (["f", 5], ["f", 2], float("inf")),
        (["f", 8, "float32"], ["f", 8, "float16"], float("inf")),
        (["f", 8], ["g", 8], float("inf")),
        (["f", 8], ["f", 8, 1], float("inf")),
    ],
)
def test_a_workload_is_compatible_with_one_whose_sizes_divide_it(wanted, known, distance):
    pair = [decode_workload_key(json.dumps(key)) for key in (wanted, known)]
    assert workload_distance(*pair) == distance


def test_a_compatible_record_counts_in_proportion(tmp_path):
    log = tmp_path / "log.json"
    keys = [json.dumps(["f", n]) for n in (8, 4, 3)]
    times = [result(9e-3), result(4e-3), result(1e-4)]
    records.save_records(log, [recorded(key) for key in keys], times)
    wanted = json.dumps(["f", 8])
    assert records.load_best_record(log, wanted)[1].seconds == 9e-3
    assert records.load_best_record(log, wanted, include_compatible=True)[1].seconds == 4e-3


def test_distilling_keeps_the_best_of_each_workload_and_joins_what_was_there(tmp_path, capfd):
    log, out = tmp_path / "log.json", tmp_path / "best" / "log.json"
    rows = [
        (recorded("a"), result(3e-3)),
        (recorded("b"), result(5e-3)),
        (recorded("a", steps=[]), result(2e-3)),
        (recorded("b"), MeasureResult((), 4, 1.0, 1.0)),
    ]
    records.save_records(log, *zip(*rows, strict=True))
    assert records.distill_record_file(log, out) == 2
    records.save_records(log, [recorded("b", steps=[["CI", 1]])], [result(1e-3)])
    assert records.main(["--mode", "distill", "-i", str(log), "-o", str(out)]) == 0
    best = {inp.task.workload_key: r.seconds for inp, r in records.load_records(out)}
    assert best == {"a": 2e-3, "b": 1e-3}
    assert records.main(["-i", str(log)]) == 0
    assert (tmp_path / "log.json.best.json").is_file()
    assert records.main(["-i", str(tmp_path / "none")]) == 1
    assert re.search("cannot read the log", capfd.readouterr().err)


def test_the_best_of_a_log_may_be_read_by_others_and_says_where_it_cannot_be_written(tmp_path):
    log, out = tmp_path / "log.json", tmp_path / "best.json"
    records.save_records(log, [recorded("a")], [result(3e-3)])
    records.distill_record_file(log, out)
    assert out.stat().st_mode & 0o777 == log.stat().st_mode & 0o777
    with pytest.raises(RecordError, match=r"cannot write .*log\.json.best\.json"):
        records.distill_record_file(log, log / "best.json")


def test_a_callback_logs_trials_as_measuring_names_them(tmp_path):
    log = tmp_path / "new" / "log.json"
    task = SearchTask(func="matmul", args=(16, 16, 16), target="cuda")
    trial = MeasureInput(task, task.compute_dag.get_init_state()).trial()
    records.RecordToFile(log)(None, [trial], [OK])
    ((inp, _),) = records.load_records(log)
    assert inp.task.workload_key == '["matmul", 16, 16, 16]'
    assert inp.task.hardware_params == task.hardware_params
    assert inp.state.to_json() == []
    with pytest.raises(RecordError, match="expected trials of a search task"):
        records.RecordToFile(log)(None, [trial._replace(task=None)], [OK])


def test_programs_that_are_saved_to_be_measured_are_read_and_are_never_the_best(tmp_path):
    log = tmp_path / "log.json"
    good = [recorded("a"), recorded("a")], [result(0.0), result(3e-3)]
    records.save_records(log, *good)
    (_, unmeasured), (_, measured) = records.load_records(log)
    assert (unmeasured.ok, measured.ok) == (False, True)
    assert unmeasured.error_msg == "not measured: its times are 0"
    assert [*measured.costs] == [3e-3]
