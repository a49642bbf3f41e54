"""Failures: which count as one, when they stop a run, and where their text goes."""

import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.measure import MeasureErrorNo, MeasureResult
from autotune.tuner import GridSearchTuner, callback
from autotune.tuner.loop.failures import Failures
from tests.tuner.doubles import Counting, Empty, loop_task, option

Kind = MeasureErrorNo


@pytest.fixture
def task():
    return loop_task()


def counted(*failures):
    table = Failures()
    for kind, message in failures:
        costs = () if kind else (1.0,)
        table.add(MeasureResult(costs, kind, 0.1, 0.0, message))
    return table


ONE_TRIAL = [
    (Kind.RUNTIME_DEVICE, "the process that runs kernels died: process {} was killed by SIGKILL"),
    (Kind.RUNTIME_DEVICE, "kernel 'k': cannot be loaded: /tmp/autotune-scratch-run-{}/k.so: no"),
    (Kind.RUNTIME_DEVICE, "illegal address 0x7f{}"),
    (Kind.WRONG_ANSWER, "y[{}] is wrong"),
    (Kind.COMPILE_HOST, "cannot compile in /tmp/autotune-build-{}: no space left"),
    (Kind.COMPILE_HOST, "the process that compiled died: process {} was killed by SIGKILL"),
]


@pytest.mark.parametrize(("kind", "message"), ONE_TRIAL)
def test_pids_and_scratch_files_do_not_tell_messages_apart(kind, message):
    table = counted(*((kind, message.format(name)) for name in (1, 22, 333)))
    assert table.alike == 3
    assert f"3  {kind.name}: {message.format(1)}" in table.summary(3)


ONE_CAUSE = [
    (
        Kind.RUNTIME_DEVICE,
        [
            "kernel 'f': thread (31,0,0) of block (1,0,0) writes out of bounds: byte 256 of 'b'",
            "kernel 'f': thread (0,0,0) of block (0,0,0) writes out of bounds: byte -28 of 'b'",
            "kernel 'f': thread (0,0,0) of block (9,0,0) writes out of bounds: byte 4000 of 'b'",
        ],
    ),
    (
        Kind.WRONG_ANSWER,
        [
            "b: 64 of 64 elements differ, worst at [34]: got 0.72635782, expected -0.9 (3.9e-06)",
            "b: 1 of 64 elements differ, worst at [3, 14]: got -1, expected 8 (3.9e-06)",
            "b: 7 of 64 elements differ, worst at [0, 0, 2]: got nan, expected 1.5e+03 (4e-6)",
            "b: 9 of 64 elements differ, worst at [1]: got -inf, expected 0.25 (1.25e-06)",
        ],
    ),
    (Kind.INSTANTIATION_ERROR, ["shape (4, 4) is too small", "shape (16,) is too small"]),
]


@pytest.mark.parametrize(("kind", "messages"), ONE_CAUSE)
def test_a_cause_is_one_line_whatever_its_offsets(kind, messages):
    table = counted(*((kind, message) for message in messages))
    _, row = table.summary(9).splitlines()
    assert f"{len(messages)}  {kind.name}: {messages[0]}" in row


def test_a_refusal_is_not_named_twice():
    table = counted((Kind.INSTANTIATION_ERROR, "InstantiationError: 96 KiB are too many\nat a.py"))
    assert table.example == "INSTANTIATION_ERROR: 96 KiB are too many" == table.whole_example


def test_another_argument_or_line_of_text_is_another_cause():
    messages = ["byte 1 of 'a'", "byte 1 of 'b'", "index is nan", "index is infinite"]
    table = counted(*((Kind.RUNTIME_DEVICE, message) for message in messages))
    assert len(table.summary(9).splitlines()) == 5


@given(st.lists(st.text("abcxyz,", min_size=1, max_size=30), min_size=1, max_size=40))
def test_a_long_message_is_cut_between_words(words):
    line = " ".join(words)
    shown = counted((Kind.COMPILE_HOST, line)).example.partition("COMPILE_HOST: ")[2]
    assert len(shown) <= 121
    if len(line.strip()) <= 120:
        assert shown == line.strip()
    else:
        kept = shown.removesuffix(" ...").split(" ")
        assert [word.rstrip(",") for word in kept] == [
            word.rstrip(",") for word in line.strip().split(" ")[: len(kept)]
        ]


def test_a_word_longer_than_a_row_is_cut_within():
    shown = counted((Kind.COMPILE_HOST, "x" * 501)).summary(1)
    assert shown.endswith("x ...")
    assert len(shown.splitlines()[1]) < 530


def test_a_few_messages_are_shown_to_their_ends_and_many_in_a_row_each():
    long = "expected 3 parameters " + "x" * 200 + " the source takes 2"
    few = [(Kind.COMPILE_DEVICE, long), (Kind.COMPILE_DEVICE, f"{long} or 1")]
    assert counted(*few).summary(2).splitlines()[1].endswith("the source takes 2")
    rows = counted(*few, (Kind.COMPILE_DEVICE, "another")).summary(3).splitlines()
    assert max(map(len, rows)) < 150


def test_cut_messages_are_compared_whole():
    long = "process {} " + "x" * 300
    assert counted(*((Kind.RUNTIME_DEVICE, long.format(n)) for n in (1, 22))).alike == 2


def test_a_refusal_of_other_numbers_may_be_followed_by_none():
    kinds = Kind.INSTANTIATION_ERROR, Kind.COMPILE_DEVICE
    for kind in kinds:
        table = counted(*((kind, f"{n} threads, at most 1024 are allowed") for n in (2048, 4096)))
        assert table.alike == 0
        assert f"2  {kind.name}: 2048 threads" in table.summary(2)
        assert len(table.summary(2).splitlines()) == 2


@pytest.mark.parametrize(
    "other",
    [
        (Kind.COMPILE_HOST, "another"),
        (Kind.COMPILE_DEVICE, "no compiler"),
        (Kind.NO_ERROR, ""),
    ],
    ids=["message", "kind", "success"],
)
@pytest.mark.parametrize("position", [0, 2, 4])
def test_anything_else_ends_a_row_of_equal_failures(other, position):
    failures = [(Kind.COMPILE_HOST, "no compiler")] * 4
    failures.insert(position, other)
    assert counted(*failures).alike == 0


@pytest.mark.parametrize("bad", [range(1, 60), range(20, 60)])
def test_a_success_keeps_a_run_going(task, bad):
    measured = option(bad=bad)
    seen = []
    watch = lambda tuner, inputs, results: seen.extend(results)
    GridSearchTuner(task).tune(60, measured, callbacks=[watch], fail_fast=8)
    assert len(seen) == 60


def test_failing_differently_keeps_a_run_going(task):
    class Various(Empty):
        def _one(self, inp):
            self.message = "compiler " + "abcdefg"[inp.config.index % 7]
            return super()._one(inp)

    seen = []
    watch = lambda tuner, inputs, results: seen.extend(results)
    measured = {"builder": Various(range(60)), "runner": Counting()}
    GridSearchTuner(task).tune(60, measured, callbacks=[watch], fail_fast=8)
    assert len(seen) == 60


def test_failures_of_an_earlier_run_do_not_stop_a_resumed_one(task, tmp_path, caplog):
    log = tmp_path / "log.json"
    keep = callback.log_to_file(log)
    GridSearchTuner(task).tune(60, option(bad=range(60)), callbacks=[keep], fail_fast=8)
    caplog.clear()
    tuner = GridSearchTuner(task)
    tuner.tune(60, option(), callbacks=[keep], resume=log, fail_fast=8)
    assert tuner.resumed >= 8
    assert tuner.best_config is not None
    assert re.search(rf"\b{tuner.resumed} of \d+ trials failed", caplog.text)


def test_the_text_of_all_errors_is_printed_where_no_file_can_be_written(
    task, caplog, tmp_path, monkeypatch
):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    caplog.set_level(logging.WARNING, "autotvm")
    measured = {"builder": Empty(range(60), "line one\nline two"), "runner": Counting()}
    GridSearchTuner(task).tune(10, measured)
    assert "Could not find any valid schedule" in caplog.text
    assert "no file could be written for it (" in caplog.text
    assert "10 x COMPILE_HOST\nline one\nline two" in caplog.text
