"""Searches that are compared without a GPU, as `benchmarks/auto_scheduler/replay.py` does."""

import pytest

from autotune.auto_scheduler.search import task_search
from benchmarks.auto_scheduler.replay import Found, main, searched


@pytest.fixture(autouse=True)
def own_prior(monkeypatch):
    """Give other tests back what searches are told of other workloads."""
    monkeypatch.setattr(task_search, "gpu_prior", task_search.gpu_prior)


def test_nothing_is_said_of_trials_that_were_not_made():
    curve = tuple(float(us) for us in range(40, 20, -1))
    found = Found("case", 0, curve, 0.1, 0.1, 2)
    assert found.best_us == {16: 25.0, 20: 21.0}
    assert Found("case", 0, curve[:5], 0.1, 0.1, 1).best_us == {5: 36.0}


def test_a_search_on_stored_trials_is_the_same_each_time_and_ends_where_it_is_told_to(capsys):
    first, again = (searched("batch_matmul", 3, 20, None) for _ in range(2))
    assert first.curve_us == again.curve_us
    assert len(first.curve_us) == 20
    assert list(first.curve_us) == sorted(first.curve_us, reverse=True)
    assert 5 < first.curve_us[-1] < 100
    main(["--cases", "batch_matmul", "--seeds", "3", "--trials", "20"])
    assert f"{first.curve_us[-1]:.2f} after 20 us" in capsys.readouterr().out
