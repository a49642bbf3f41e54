"""Tables of best so far against trials, medians over seeds."""

import json

from benchmarks.auto_scheduler.curves import at_points, best_after, lines, means, runs_of


def run(seed, curve, without=(), budget=4, **more):
    row = {"name": "gemm", "seed": seed, "curve_us": curve, "without": list(without), **more}
    return {**row, "budget": budget, "us": curve[-1], "wall_s": 2.0}


def test_a_space_that_ended_keeps_its_best_and_a_run_of_fewer_trials_says_nothing():
    assert best_after(run(0, [3.0, 2.0]), 4) == 2.0
    assert best_after(run(0, [3.0, 2.0], budget=2), 4) == float("inf")
    assert best_after(run(0, [3.0, 2.0]), 1) == 3.0


def test_points_are_medians_over_seeds():
    runs = [run(seed, [9.0, best]) for seed, best in enumerate((5.0, 1.0, 3.0))]
    assert at_points(runs, (1, 2)) == [9.0, 3.0]


def test_what_was_left_out_stands_beside_the_whole(tmp_path):
    rows = [run(0, [4.0, 2.0], library_us=6.0, beside_us=2.0), run(0, [8.0, 4.0], ["estimate"])]
    rows = [run(0, [99.0, 99.0]), *rows]  # of each seed the last run counts
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = runs_of([tmp_path])
    table = list(lines(found, (1, 2)))
    assert "| gemm | 0 | 4.0 | 2.0 | 2.0 | 2.0 | 6.0, 2.0 | 3.00 |" in table
    assert "| gemm without estimate | 0 | 8.0 (2.00) | 4.0 (2.00) | 4.0 | 2.0 |  |  |" in table
    assert list(means(found, (1, 2))) == [
        "without estimate, 1 workloads: 2.000 after 1, 2.000 after 2",
        "library / found, 1 workloads: mean 3.00, least 3.00",
    ]
