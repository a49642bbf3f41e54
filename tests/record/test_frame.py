"""Records as a dataframe of pandas."""

import sys

import pytest

from autotune.errors import RecordError
from autotune.record import encode, to_dataframe
from tests.record.records import failed, good, make_config, make_input

GEMM, CONV = ("gemm", (64, 64), "llvm"), ("conv", (1,), "llvm")


def pair(workload, index, result, **knobs):
    return make_input(*workload, make_config(index, **knobs)), result


def test_a_dataframe_has_a_row_a_trial_and_a_column_a_knob(tmp_path):
    pytest.importorskip("pandas")
    first, second = logs = tmp_path / "a.log", tmp_path / "b.log"
    trials = [
        pair(GEMM, 0, good(2e-6), k=1, t=[-1, 8]),
        pair(GEMM, 1, good(3e-6), k=1, t=[-1, 4]),
        pair(GEMM, 2, failed(3, "no such flag"), k=2, t=[-1, 4]),
        pair(CONV, 0, good(5e-6), k=1),
    ]
    race = "# race " + encode(*pair(GEMM, 0, good(1.2e-6), k=1, t=[-1, 8]))
    first.write_text("\n".join([*(encode(*one) for one in trials), race, "garbage"]) + "\n")
    second.write_text(encode(*pair(GEMM, 1, good(0.6e-6), k=1, t=[-1, 4])) + "\n")
    frame = to_dataframe(*logs)
    assert len(frame) == 5
    assert list(frame["log"].unique()) == [str(first), str(second)]
    gemm = frame[frame["task"] == "gemm"]
    assert gemm["seconds"].min() == pytest.approx(0.6e-6)
    assert gemm["seconds"].isna().sum() == 1
    fastest = gemm.groupby("config.t")["seconds"].min()
    assert fastest[(-1, 4)] == pytest.approx(0.6e-6)


def test_a_dataframe_is_made_of_pairs_too():
    pytest.importorskip("pandas")
    frame = to_dataframe(
        [pair(GEMM, 0, good(2e-6), k=1), pair(GEMM, 1, failed(4, "it hung"), k=2)]
    )
    assert list(frame["error"]) == ["", "RUNTIME_DEVICE"]
    assert "log" not in frame


def test_without_pandas_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RecordError, match=r"pip install 'autotune\[pandas\]'"):
        to_dataframe([])
