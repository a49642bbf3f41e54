"""The tasks of one run teach each other: one model, and the best rows of similar tasks."""

import multiprocessing
import subprocess
import sys

import numpy as np
import pytest

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy, XGBModel
from autotune.auto_scheduler.search.models import descriptor
from autotune.auto_scheduler.search.space.program import FactorSlot
from autotune.auto_scheduler.search.space.transfer import ProgramKind, mapped
from autotune.cost_model import Trees
from tests.auto_scheduler.graphs import conv2d_layer, matmul
from tests.auto_scheduler.quick import QUICK

GPU = "cuda -arch=sm_90"


def plain_conv(channels, size):
    x = te.placeholder((1, channels, size, size), name="x")
    w = te.placeholder((channels, channels, 3, 3), name="w")
    return [x, w, topi.nn.conv2d_nchw(x, w, 1, 1)]


def fused_conv(channels, size):
    return conv2d_layer(1, size, size, channels, channels, 3, 3, 1, 1)


def search_of(tensors, model, target=GPU, seed=0):
    task = SearchTask(compute_dag=ComputeDAG(tensors), target=target)
    return SketchPolicy(task, model, QUICK, seed=seed, verbose=0).proposer


def measured(proposer, count=12, seconds=None):
    """Let a search learn times that are made up: by default the estimates, with some noise."""
    rng = np.random.default_rng(len(proposer.programs))
    batch = proposer.propose(count)
    rows = [proposer.row_of(each.transform_steps) for each in batch]
    estimates = [proposer.programs[at].cost_model(row[None]).seconds[0] for at, row in rows]
    times = (
        [estimate * 2 ** rng.normal(0, 0.1) for estimate in estimates]
        if seconds is None
        else seconds
    )
    proposer.learn([(each.transform_steps, time) for each, time in zip(batch, times, strict=True)])
    return rows, times


# ---- descriptors


def test_a_workload_is_described_by_its_sizes():
    task = SearchTask(compute_dag=ComputeDAG(matmul(31, 15, 7)), target=GPU)
    found = 2.0 ** descriptor.described(task) - 1
    flop, size = 2 * 31 * 15 * 7, 4 * (31 * 7 + 7 * 15 + 31 * 15)
    wanted = [flop, size, flop / size, 31 * 15, 7, 2, 1, 15, 31, 0, 0, 7, 0, 0]
    assert found == pytest.approx(wanted, rel=1e-4)
    assert len(found) == descriptor.COLUMNS


# ---- rows of one workload as rows of another


def test_rows_become_those_that_are_nearest_by_ratio():
    model = XGBModel()
    small, large = (search_of(matmul(n, n, n), model).programs[0] for n in (48, 256))
    rows = large.sampler.draw(20)
    new = mapped(rows, large.program, small.program)
    for slot in small.program.slots:
        values = new[:, small.program.columns[slot.step]]
        if isinstance(slot, FactorSlot):
            assert (slot.extent % values.prod(axis=1) == 0).all()
            assert (values[:, -1] <= slot.innermost).all()
        else:
            assert np.isin(values, slot.values).all()
    same = mapped(rows, large.program, large.program)
    np.testing.assert_array_equal(same, rows)


def test_a_tile_of_32_is_one_of_24_or_48_where_only_these_divide():
    program = search_of(matmul(48, 48, 48), XGBModel()).programs[0].program
    other = search_of(matmul(64, 64, 64), XGBModel()).programs[0].program
    row = np.ones((1, other.width), np.int64)
    row[:, other.columns[other.slots[0].step]] = [1, 32, 1, 1]
    new = mapped(row, other, program)[0, program.columns[program.slots[0].step]]
    assert new.tolist() in ([1, 24, 1, 1], [1, 48, 1, 1])


def test_layers_are_of_one_kind_whatever_follows_them_and_other_operators_are_not():
    model = XGBModel()
    plain, fused, product = (
        [ProgramKind(searched.program).signature for searched in search_of(each, model).programs]
        for each in (plain_conv(64, 14), fused_conv(32, 28), matmul(64, 64, 64))
    )
    assert set(plain) & set(fused)
    assert not set(plain) & set(product)


def test_programs_that_share_a_sum_among_blocks_meet_those_with_as_many_parts():
    proposer = search_of(plain_conv(256, 7), XGBModel())
    kinds = [searched.kind for searched in proposer.programs if len(searched.kind.decided)]
    assert len(kinds) > 1
    for kind in kinds:
        assert kind.distance(kind) == 0
        assert all(kind.distance(other) >= 1 for other in kinds if other is not kind)


# ---- elites


def test_the_first_batch_has_what_was_fastest_of_a_similar_task():
    model = XGBModel()
    first, second = (search_of(plain_conv(*sizes), model) for sizes in ((64, 28), (64, 14)))
    assert second.member.elites() == []
    measured(first)
    elites = second.member.elites()
    assert elites
    known = {(at, row.tobytes()) for at, row in elites}
    batch = [second.row_of(each.transform_steps) for each in second.propose(16)]
    assert [(at, row.tobytes()) for at, row in batch[:2]] == [
        (at, row.tobytes()) for at, row in elites[:2]
    ]
    assert len(known) == len(elites), "each stands there once"


def test_what_was_proposed_is_not_taken_over_again():
    model = XGBModel()
    first, second = (search_of(plain_conv(*sizes), model) for sizes in ((64, 28), (64, 14)))
    measured(first)
    measured(second, 8)
    batches = [second.propose(8) for _ in range(3)]
    keys = [each.key for batch in batches for each in batch]
    assert len(set(keys)) == len(keys)


def test_failures_are_no_elites():
    model = XGBModel()
    first, second = (search_of(plain_conv(*sizes), model) for sizes in ((64, 28), (64, 14)))
    measured(first, 8, [float("inf")] * 8)
    assert second.member.elites() == []


def test_the_most_similar_tasks_come_first():
    model = XGBModel()
    near, far, own = (
        search_of(plain_conv(*sizes), model) for sizes in ((64, 28), (8, 112), (64, 14))
    )
    measured(far)
    measured(near)
    assert [other.key for other in own.member._similar()] == [near.member.key, far.member.key]


# ---- the common model


def test_what_one_task_shows_changes_the_order_of_another():
    """Estimates of both are wrong alike: the narrower a tile, the faster."""
    model = XGBModel()
    first, second = (search_of(matmul(n, n, n), model, "llvm") for n in (64, 96))
    states = [each.transform_steps for each in second.sample(40)]
    before = second.scores(states)
    for _ in range(3):
        batch = first.propose(16)
        places = [first.row_of(each.transform_steps) for each in batch]
        times = [1e-6 * 2.0 ** float(row.sum() % 5) for _, row in places]
        first.learn(list(zip([each.transform_steps for each in batch], times, strict=True)))
    assert not np.allclose(before, second.scores(states))
    assert second.member.group.model.count >= 40


def test_trees_are_fitted_for_proposals_and_not_for_each_result(monkeypatch):
    model = XGBModel()
    first, second = (search_of(plain_conv(*sizes), model) for sizes in ((64, 28), (64, 14)))
    fitted = []
    fit = Trees.fit
    monkeypatch.setattr(Trees, "fit", lambda *given: fitted.append(given) or fit(*given))
    batch = first.propose(8)
    for number, each in enumerate(batch):
        first.learn([(each.transform_steps, 1e-5 * (number + 1))])
    assert not fitted
    first.propose(8)
    assert len(fitted) == 4  # of all workloads, and the three ensembles of this one
    second.propose(8)
    assert len(fitted) == 4


def test_trials_are_judged_by_what_others_say_before_these_know_them():
    """However late and in whatever groups results are heard of."""

    def weight(asked_between, at_once):
        model = XGBModel()
        first, second = (search_of(plain_conv(*sizes), model) for sizes in ((64, 28), (64, 14)))
        batch = [each.transform_steps for each in first.propose(12)]
        trials = [(steps, 1e-5 * (1 + number)) for number, steps in enumerate(batch)]
        for start in range(0, 12, at_once):
            first.learn(trials[start : start + at_once])
        if asked_between:
            second.propose(4)
        first.propose(4)
        return first.model.common_weight

    assert weight(False, 12) == weight(False, 1) == weight(True, 1)
    assert weight(False, 12) < 1.0


def test_half_of_a_first_batch_is_best_by_estimates_alone():
    """What other workloads say may mislead where none of them has been."""
    search = search_of(plain_conv(64, 14), XGBModel())
    _, plain, pools = search._evolved(search.effort)
    first = search._first(plain, pools, 16)
    estimated = sorted((score for pool in pools for score in pool.estimated), reverse=True)
    own = [search.programs[at].cost_model(row[None]).seconds[0] for at, row in first]
    assert len(first) == 8
    # Some are bred by estimates, and may be better than what was bred by all that is known.
    assert max(-np.log2(own)) >= estimated[0] - 1e-9
    measured(search)
    assert search._first(plain, pools, 16) == []


def test_rows_bred_by_estimates_are_estimated_better_than_those_drawn():
    """Bred by what other workloads say alone, the best by estimates would be there by chance."""
    search = search_of(matmul(1024, 1024, 1024), XGBModel())
    drawn, plain, pools = search._evolved(search.effort)
    first = search._first(plain, pools, 64)
    own = [search.programs[at].cost_model(row[None]).seconds[0] for at, row in first]
    best_drawn = max(pool.estimated.max() for pool in drawn)
    assert max(-np.log2(own)) > best_drawn
    assert max(pool.estimated.max() for pool in plain) > best_drawn


def test_cpus_and_gpus_do_not_teach_each_other():
    model = XGBModel()
    cpu, gpu = search_of(matmul(64, 64, 64), model, "llvm"), search_of(matmul(64, 64, 64), model)
    assert cpu.member.group is not gpu.member.group


def test_models_of_their_own_share_nothing():
    first, second = (search_of(plain_conv(*each), XGBModel()) for each in ((64, 28), (64, 14)))
    measured(first)
    assert second.member.elites() == []


def proposals_of_a_run():
    """Return what two tasks on one model propose in two rounds, from a seed."""
    model = XGBModel()
    searches = [search_of(plain_conv(*sizes), model, seed=3) for sizes in ((32, 14), (64, 7))]
    found = []
    for _ in range(2):
        for each in searches:
            rows, _ = measured(each, 8)
            found.append([(at, row.tolist()) for at, row in rows])
    return found


def test_equal_seeds_and_results_give_equal_proposals_to_all_tasks():
    assert proposals_of_a_run() == proposals_of_a_run()


# ---- processes


def tuned_in_a_child(task, folder, queue):
    """Tune a task that came from another process; answer with what its log holds."""
    from autotune.auto_scheduler import LocalBuilder, LocalRunner, RecordToFile, TuningOptions

    runner = LocalRunner(number=1, repeat=1, timeout=60)
    options = TuningOptions(
        3, builder=LocalBuilder(n_parallel=1), runner=runner, verbose=0,
        measure_callbacks=[RecordToFile(f"{folder}/log.json")],
    )  # fmt: skip
    task.tune(options, SketchPolicy(task, XGBModel(), QUICK, seed=0))
    queue.put(task.print_best(f"{folder}/log.json"))


def test_a_task_is_searched_in_a_process_that_was_spawned(tmp_path):
    """As in TVM's own test; the graph comes with the task, nothing is registered there."""
    task = SearchTask(compute_dag=ComputeDAG(matmul(16, 16, 16)), target="c")
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=tuned_in_a_child, args=(task, str(tmp_path), queue))
    child.start()
    text = queue.get(timeout=120)
    child.join(60)
    assert child.exitcode == 0
    assert ".split(" in text


SCRIPT = """
import multiprocessing
from autotune import auto_scheduler, te

@auto_scheduler.register_workload
def product(n):
    a, b = (te.placeholder((n, n), name=name) for name in "AB")
    k = te.reduce_axis((0, n), name="k")
    return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]

def main():
    multiprocessing.set_start_method("spawn", force=True)
    task = auto_scheduler.SearchTask(func=product, args=(8,), target="c")
    options = auto_scheduler.TuningOptions(
        num_measure_trials=3, verbose=0,
        builder=auto_scheduler.LocalBuilder(n_parallel=1),
        runner=auto_scheduler.LocalRunner(number=1, repeat=1, timeout=60),
        measure_callbacks=[auto_scheduler.RecordToFile("log.json")],
    )
    task.tune(options)
    print(len(auto_scheduler.RecordReader("log.json").read_lines()[0]), "trials")

if __name__ == "__main__":
    main()
"""


def test_a_script_whose_processes_are_spawned_can_tune(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stderr
    assert "3 trials" in done.stdout
