"""A batch is of several kinds of rows, and the first one, which a run begins with, of the best."""

from collections import Counter

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy, XGBModel
from autotune.auto_scheduler.search.effort import Effort, part_of
from tests.auto_scheduler.graphs import conv2d_layer, matmul

LAYER = (1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1))


def proposer_of(tensors, seed=0):
    task = SearchTask(compute_dag=ComputeDAG(tensors), target="cuda -arch=sm_90")
    return SketchPolicy(task, XGBModel(), seed=seed, verbose=0).proposer


def kinds_of(proposer, rows):
    """Count the rows of each program with one estimate."""
    models = [searched.cost_model for searched in proposer.programs]
    return Counter((at, float(models[at](row[None]).seconds[0])) for at, row in rows)


def test_few_rows_of_a_batch_have_one_estimate():
    """Tiles that differ in which axes their loops are of alone are estimated alike."""
    without = []
    for seed in range(4):
        proposer = proposer_of(conv2d_layer(*LAYER), seed)
        pools = proposer._evolved(Effort().of_batch(8))[2]
        without += kinds_of(proposer, proposer.selection.best(pools, 8, varied=False)).values()
        found = proposer.selection.best(pools, 8)
        assert len(found) == 8
        assert max(kinds_of(proposer, found).values()) <= 3
    assert max(without) > 3


def test_a_batch_is_filled_where_all_estimates_are_equal():
    proposer = proposer_of(matmul(512, 512, 512))
    (pool, *_) = proposer._evolved(Effort())[0]
    equal = type(pool)(pool.stack, pool.rows, pool.scores, pool.doubts, 0 * pool.estimated)
    assert len(proposer.selection.best([equal], 12)) == part_of(12, Effort().equal)
    assert len(proposer.selection.best([equal], 12, varied=False)) == 12


def test_the_first_batch_of_a_short_run_is_searched_for_as_that_of_a_long_one():
    proposer = proposer_of(matmul(512, 512, 512))
    assert proposer._effort_of(8) == Effort()
    batch = [each.transform_steps for each in proposer.propose(8)]
    proposer.learn([(steps, 1e-5) for steps in batch])
    assert proposer._effort_of(8) == Effort().of_batch(8) != Effort()


def test_nothing_is_chosen_where_nothing_is_wanted():
    proposer = proposer_of(matmul(1024, 1024, 1024))
    pools = proposer._evolved(Effort().of_batch(8))[2]
    assert proposer.selection.best(pools, 0) == []


def test_batches_are_full_where_few_rows_are_left_and_many_have_one_estimate():
    data = te.placeholder((64, 1000), name="data")
    proposer = proposer_of([data, topi.nn.softmax(data)], seed=1)
    for number in range(8):
        batch = proposer.propose(8)
        assert len(batch) == 8
        proposer.learn([(each.transform_steps, 1e-5 / (1 + number)) for each in batch])
