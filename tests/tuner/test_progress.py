"""The progress bar: in place on a terminal, plain lines elsewhere, and an end to both."""

import io
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from autotune.errors import TunerError
from autotune.measure import BuildResult, MeasureErrorNo
from autotune.task import create, get_config, template
from autotune.tuner import AutoTuner, GridSearchTuner, callback
from autotune.tuner.display import progress
from tests.tuner.doubles import Counting, Empty, loop_task, option


@template("tests/progress/no_flop")
def no_flop(n):
    get_config().define_knob("x", list(range(n)))
    get_config().define_knob("y", [1])


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def colours(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(progress, "_DRAW_S", 0.0)


def shown(stream, n_trial=20, task=None, total=None, prefix="", **given):
    """Run with a bar; return what it wrote, and the result."""
    bar = callback.progress_bar(total or n_trial, prefix=prefix, stream=stream)
    result = GridSearchTuner(task or loop_task()).tune(
        n_trial, option(**given), callbacks=[bar], fail_fast=None
    )
    return stream.getvalue(), result


def test_elsewhere_plain_lines_are_written_and_none_over_another():
    text, result = shown(io.StringIO(), prefix="[Task 1/2]", bad=[3, 4])
    assert "\r" not in text
    assert "\x1b" not in text
    lines = text.splitlines()
    assert lines[0] == "[Task 1/2] 0/20 trials, best none yet, 0.0 trials/s, 0 failed"
    last = next(line for line in lines if "20/20" in line)
    form = (
        r"\[Task 1/2\] 20/20 trials, best 1000\.0 us \(1\.00 GFLOPS\), "
        r"\d+\.\d trials/s, 2 failed"
    )
    assert re.fullmatch(form, last)
    assert text.endswith(f"{result}\n")


def test_a_long_run_writes_a_line_for_each_tenth():
    lines = shown(io.StringIO(), 60)[0].splitlines()
    assert 2 <= sum(" trials, best " in line for line in lines) <= 12


def test_on_a_terminal_one_line_is_drawn_anew_and_ended():
    text, result = shown(Terminal(), prefix="[Task 1/1]", bad=[3])
    assert "\x1b[2K" in text  # it clears the line
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)
    assert "[Task 1/1]" in plain
    assert "20/20 best 1000.0 us (1.00 GFLOPS)" in plain
    assert "trials/s 1 failed" in plain
    assert plain.endswith(f"\n{result}\n")


def test_the_cursor_is_never_hidden_as_a_killed_run_could_not_show_it_again():
    text, _ = shown(Terminal())
    assert "\x1b[2K" in text
    assert "\x1b[?25" not in text


def test_without_operations_there_is_no_rate():
    task = create("tests/progress/no_flop", (4,), "c")
    for stream in (io.StringIO(), Terminal()):
        text, _ = shown(stream, 4, task)
        assert "1000.0 us" in text
        assert "FLOPS" not in text


class LastTold(list):
    """What a view was last told, after each group of trials."""

    def view(self, monkeypatch):
        monkeypatch.setattr(progress, "_view", lambda stream: self)
        return self

    def show(self, state):
        self.append(state)

    def end(self, state, summary):
        self.append(state)


@pytest.mark.parametrize("tuner", [GridSearchTuner, AutoTuner])
def test_no_more_trials_are_shown_than_the_space_has(tuner, monkeypatch):
    states = LastTold().view(monkeypatch)
    result = tuner(loop_task(21)).tune(300, option(), callbacks=[callback.progress_bar(300)])
    assert result.trials == 63
    assert {state.total for state in states} == {63}
    assert all(state.left_s <= 63 / state.rate for state in states[1:-1] if state.left_s)


def test_the_bar_of_a_second_run_knows_what_the_first_left(monkeypatch):
    states = LastTold().view(monkeypatch)
    tuner, bar = GridSearchTuner(loop_task(5)), callback.progress_bar(300)
    totals = []
    for n_trial in (4, 300):
        states.clear()
        tuner.tune(n_trial, option(), callbacks=[bar])
        totals.append({state.total for state in states})
    assert totals == [{4}, {11}]


def test_proposals_that_cannot_run_are_not_waited_for(monkeypatch):
    class Refuses(Empty):
        def refusal(self, measure_input):
            odd = measure_input.config.index % 2
            number = MeasureErrorNo.INSTANTIATION_ERROR
            return BuildResult("", None, error_no=number, error_msg="odd") if odd else None

    states = LastTold().view(monkeypatch)
    measure_option = {"builder": Refuses(), "runner": Counting()}
    bar = callback.progress_bar(300)
    result = GridSearchTuner(loop_task(10)).tune(300, measure_option, callbacks=[bar])
    assert (result.trials, result.filtered) == (15, 15)
    assert (states[-1].done, states[-1].total) == (15, 15)


@pytest.mark.parametrize(
    ("rule", "most_s"),
    [({"early_stopping": 4}, lambda state: 4 / state.rate), ({"timeout_s": 5}, lambda state: 5)],
    ids=["early stopping", "timeout"],
)
def test_the_time_left_is_what_the_rules_to_stop_leave(rule, most_s, monkeypatch):
    states = LastTold().view(monkeypatch)
    tuner = GridSearchTuner(loop_task(2000))
    tuner.tune(20, option(), callbacks=[callback.progress_bar(10**9)], **rule)
    told = [state for state in states if state.left_s is not None]
    assert told
    assert all(state.left_s <= most_s(state) for state in told)
    slow = replace(told[0], total=10**9, elapsed_s=1e9)
    assert slow.left_s is not None
    assert slow.left_s <= most_s(slow)


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_a_run_that_stops_early_ends_its_line_too(stream):
    out = stream()
    bar = callback.progress_bar(60, stream=out)
    result = GridSearchTuner(loop_task()).tune(60, option(), callbacks=[bar], early_stopping=5)
    assert out.getvalue().endswith(f"{result}\n")
    assert "early stopping" in out.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_after_ctrl_c_the_line_is_ended_and_the_summary_shown(stream):
    out = stream()
    tuner = GridSearchTuner(loop_task())
    bar = callback.progress_bar(60, stream=out)
    with pytest.raises(KeyboardInterrupt):
        tuner.tune(60, option(stop_at=20), callbacks=[bar])
    assert out.getvalue().endswith(f"{tuner.result}\n")
    assert "interrupted" in out.getvalue()


def test_a_bar_can_be_used_for_a_second_run():
    out = io.StringIO()
    bar = callback.progress_bar(5, stream=out)
    for _ in range(2):
        GridSearchTuner(loop_task()).tune(5, option(), callbacks=[bar])
    assert out.getvalue().count("5/5 trials") == 2
    assert out.getvalue().count("0/5 trials") == 2


def test_a_bar_that_a_loop_of_ones_own_calls_needs_no_beginning():
    out = io.StringIO()
    bar = callback.progress_bar(2, stream=out)
    tuner = GridSearchTuner(loop_task())
    seen = []
    tuner.tune(2, option(), callbacks=[lambda *group: seen.append(group)])
    for group in seen:
        bar(*group)
    assert "2/2 trials, best 1000.0 us" in out.getvalue()


@pytest.mark.parametrize("total", [0, -1, "5", 2.5, None, True])
def test_a_total_that_is_none_is_refused(total):
    with pytest.raises(TunerError, match="progress_bar: total must be a whole number"):
        callback.progress_bar(total)


def test_rich_is_loaded_only_where_it_draws():
    text = (
        "import sys; from autotune.tuner import callback; callback.progress_bar(3);"
        "print(any(name.split('.')[0] == 'rich' for name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize(("widgets", "kind"), [(True, "Drawn"), (False, "PlainProgress")])
def test_a_notebook_gets_a_widget_where_widgets_are(monkeypatch, widgets, kind):
    shell = type("ZMQInteractiveShell", (), {})
    python = type(sys)("IPython")
    python.get_ipython = shell
    monkeypatch.setitem(sys.modules, "IPython", python)
    found = lambda name: object() if widgets else None
    monkeypatch.setattr("importlib.util.find_spec", found)
    assert type(callback.progress_bar(3)._view).__name__ == kind


def test_a_rate_that_its_unit_does_not_show_is_in_that_of_the_summary():
    stream = io.StringIO()
    bar = callback.progress_bar(20, si_prefix="P", stream=stream)
    GridSearchTuner(loop_task()).tune(20, option(), callbacks=[bar], fail_fast=None)
    assert "20/20 trials, best 1000.0 us (1.00 GFLOPS)" in stream.getvalue()
