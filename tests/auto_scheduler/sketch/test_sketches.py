"""Sketches: how many the rules derive, in which order, and what they look like, as in TVM."""

import random
from dataclasses import replace

import pytest

from autotune import te, topi
from autotune.auto_scheduler import (
    ComputeDAG,
    HardwareParams,
    RandomModel,
    SearchTask,
    SketchPolicy,
)
from autotune.auto_scheduler.sketch import generate_sketches, stage_queries
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.auto_scheduler.transform_steps import SplitStep
from autotune.errors import TunerError
from tests.auto_scheduler.graphs import matmul
from tests.auto_scheduler.running import assert_states_compute_the_same
from tests.auto_scheduler.states.test_replay import RECORDS, graph_of

ROOT, INLINED, ITER = 0, 1, 2


def two_products():
    a, b, c = matmul(512, 512, 512)
    d = te.placeholder((512, 512), name="D")
    r = te.reduce_axis((0, 512), name="k")
    e = te.compute((512, 512), lambda i, j: te.sum(c[i, r] * d[r, j], axis=[r]), name="E")
    return [a, b, d, e]


def sum_of_products(n=512):
    a, b, c = matmul(n, n, n)
    d = te.placeholder((n, n), name="D")
    r = te.reduce_axis((0, n), name="k")
    e = te.compute((n, n), lambda i, j: te.sum(a[i, r] * d[r, j], axis=[r]), name="E")
    return [a, b, d, te.compute((n, n), lambda i, j: c[i, j] + e[i, j], name="F")]


def conv_bn_relu(h=56, ci=512, co=512):
    data = te.placeholder((1, ci, h, h), name="Data")
    kernel = te.placeholder((co, ci, 3, 3), name="Kernel")
    scale = te.placeholder((co, 1, 1), name="Scale")
    conv = topi.nn.conv2d_nchw(data, kernel, 1, 1, 1)
    scaled = te.compute(conv.shape, lambda b, c, y, x: conv[b, c, y, x] * scale[c, 0, 0])
    return [data, kernel, scale, topi.nn.relu(scaled)]


def pool():
    data = te.placeholder((1, 64, 56, 56), name="A")
    return [data, topi.nn.pool2d(data, (2, 2), (1, 1))]


def row_minimum(rows=64, columns=1024):
    a = te.placeholder((rows, columns), name="A")
    return [a, topi.min(a, axis=1)]


def softmax(*shape):
    a = te.placeholder(shape, name="A")
    return [a, topi.nn.softmax(a, axis=-1)]


def winograd(channels=128, h=14, tile=4):
    data = te.placeholder((1, h, h, channels), name="data")
    kernel = te.placeholder((tile + 2, tile + 2, channels, channels), name="kernel")
    out = topi.nn.conv2d_winograd_nhwc(data, kernel, 1, 1, pre_computed=True, tile_size=tile)
    return [data, kernel, out]


def total(n=128):
    a = te.placeholder((n, n), name="A")
    rows, columns = te.reduce_axis((0, n), name="i"), te.reduce_axis((0, n), name="j")
    return [a, te.compute((), lambda *_: te.sum(a[rows, columns], axis=[rows, columns]), name="B")]


def sketches(tensors, target, **options):
    params = HardwareParams(num_cores=4, target=target)
    dag = ComputeDAG(tensors)
    task = SearchTask(compute_dag=dag, target=target, hardware_params=params)
    return generate_sketches(task, **options)


def tiled(state):
    """Return the names of tiled stages."""
    return {stage.name for stage in state.stages if stage_queries.is_tiled(stage)}


def places(state):
    """Return what is inlined, and what hangs at a loop of what."""
    attach = state.state_object.attach
    inlined = {stage.name for stage in state.stages if stage.compute_at == INLINED}
    hung = {state.stages[a].name: state.stages[b].name for a, (b, _) in attach.items()}
    return inlined, hung


@pytest.mark.parametrize(
    ("graph", "cpu", "gpu"),
    [
        (lambda: matmul(512, 512, 512), 3, 1),
        (lambda: matmul(8, 8, 512), 5, 2),
        (lambda: matmul(8, 8, 1024), 5, 2),
        (two_products, 9, 1),
        (conv_bn_relu, 3, 1),
        (pool, 1, 1),
        (row_minimum, 3, 2),
        (lambda: softmax(1, 1024), 9, 4),
        (lambda: softmax(4, 12, 32, 64), 9, 4),
        (winograd, 3, 1),
        (total, 3, 2),
    ],
    ids=["matmul", "long512", "long1024", "two", "conv", "pool", "min", "softmax", "softmax4",
         "winograd", "total"],
)  # fmt: skip
def test_there_are_as_many_sketches_as_in_tvm_and_no_two_are_equal(graph, cpu, gpu):
    for target, count in (("llvm", cpu), ("cuda", gpu)):
        found = sketches(graph(), target)
        assert len(found) == count
        assert len(set(found)) == count
        assert len({str(state.transform_steps) for state in found}) == count


def test_a_product_on_the_cpu_is_tiled_alone_and_with_its_cache_at_two_levels():
    alone, first, second = sketches(matmul(512, 512, 512), "llvm")
    assert tiled(alone) == {"C"}
    assert not alone.concrete
    for state, loops in ((first, 2), (second, 4)):
        assert tiled(state) == {"C", "C.local"}
        assert stage_queries.has_cache_write(state, 2)
        assert not stage_queries.has_cache_write(state, 3)
        assert state.state_object.attach == {2: (3, loops - 1)}
    names = [loop.name for loop in alone.stages[2].iters]
    assert names == ["i.0", "j.0", "i.1", "j.1", "k.0", "i.2", "j.2", "k.1", "i.3", "j.3"]


def test_a_product_of_a_long_sum_on_the_cpu_is_factored_on_either_part():
    outer, inner, *rest = sketches(matmul(8, 8, 512), "llvm")
    for state in (outer, inner):
        assert stage_queries.has_rfactor(state, 2)
        assert not stage_queries.has_rfactor(state, 3)
        assert not tiled(state)
        assert not state.concrete
        assert state.transform_steps[-2 if state is outer else -3].lengths == (None,)
    assert [loop.name for loop in inner.stages[2].iters][-1] == "k_i"
    assert all(stage_queries.is_tiled(state.stages[2]) for state in rest)


def test_a_product_on_the_gpu_is_fetched_by_blocks_and_kept_in_registers():
    (state,) = sketches(matmul(512, 512, 512), "cuda")
    names = [stage.name for stage in state.stages]
    assert names == ["A", "A.shared", "B", "B.shared", "C.local", "C"]
    assert stage_queries.has_cache_write(state, 4)
    assert [stage_queries.has_cache_read(state, i) for i in (0, 2)] == [True, True]
    assert tiled(state) == {"C.local", "C"}
    assert places(state) == (
        set(), {"C.local": "C", "B.shared": "C.local", "A.shared": "C.local"}
    )  # fmt: skip
    loops = [loop.name for loop in state.stages[4].iters]
    assert loops[6:10] == ["k.0", "k.1", "i_c.3", "j_c.3"]
    assert state.state_object.attach[1] == (4, 6)


def test_a_product_of_a_long_sum_on_the_gpu_is_reduced_by_threads_together():
    together, alone = sketches(matmul(8, 8, 1024), "cuda")
    assert stage_queries.is_cross_thread_reduced(together, 2)
    assert not stage_queries.is_cross_thread_reduced(alone, 4)
    assert [loop.extent for loop in together.stages[2].iters] == [8, 8, 32, 32]


def test_a_convolution_takes_what_follows_into_its_tiles():
    for target, level in (("llvm", 1), ("cuda", 3)):
        state = sketches(conv_bn_relu(), target)[0]
        inlined, hung = places(state)
        # Padding decides by a branch, which is no cheap thing on a CPU.
        padding = {"pad_temp"} if target == "cuda" else set()
        assert padding <= inlined
        assert ("pad_temp.shared" in hung) == (target == "cuda")
        conv = next(i for i, stage in enumerate(state.stages) if stage.op.reduce_axis)
        assert state.state_object.attach[conv] == (len(state.stages) - 1, 4 * level - 1)


def test_a_pool_has_one_sketch_without_steps_but_inlining():
    for target in ("llvm", "cuda"):
        (state,) = sketches(pool(), target)
        assert [type(step).__name__ for step in state.transform_steps] in (
            [], ["ComputeInlineStep"],
        )  # fmt: skip


def test_softmax_on_the_gpu_becomes_one_kernel_or_several():
    together, first, second, alone = sketches(softmax(64, 1024), "cuda")
    assert places(together) == (
        {"T_softmax_exp"},
        {"T_softmax_maxelem": "T_softmax_norm", "T_softmax_expsum": "T_softmax_norm"},
    )
    assert places(first)[1] == {"T_softmax_expsum": "T_softmax_norm"}
    assert stage_queries.is_cross_thread_reduced(second, 1)
    assert not places(second)[1]
    assert not any(
        stage_queries.is_cross_thread_reduced(alone, i) for i in range(len(alone.stages))
    )


def test_constant_matrices_of_winograd_are_inlined_and_their_loops_unrolled():
    for target in ("llvm", "cuda"):
        state = sketches(winograd(), target)[-1]
        inlined, hung = places(state)
        assert {"B", "A"} <= inlined
        pack = next(s for s in state.stages if s.name == "data_pack")
        assert [loop.annotation for loop in pack.iters if loop.annotation] == [1] * 4
        if target == "cuda":
            assert hung["input_tile"] == "data_pack"


def sums_by_weights(rows=24, columns=40):
    """A product that reads the second result of a reduction, which has two."""
    a = te.placeholder((rows, columns), name="A")
    w = te.placeholder((rows, columns), name="W")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda s, t: (te.const(0, s), te.const(0, t))
    )
    j, i = te.reduce_axis((0, columns), name="j"), te.reduce_axis((0, rows), name="i")
    _, squares = te.compute((rows,), lambda r: both((a[r, j], a[r, j] * a[r, j]), axis=j))
    return [a, w, te.compute((columns,), lambda c: te.sum(squares[i] * w[i, c], axis=i), "B")]


def test_two_products_that_share_a_reader_are_both_tiled():
    for target in ("llvm", "cuda"):
        for state in sketches(sum_of_products(), target):
            products = [s for s in state.stages if s.op.reduce_axis]
            assert len(products) == 2
            assert all(stage_queries.is_tiled(stage) for stage in products)


def test_a_product_of_the_second_result_of_a_reduction_has_sketches_on_a_gpu():
    tensors = sums_by_weights()
    found = sketches(tensors, "cuda")
    assert {"A", "W.shared"} <= {stage.name for state in found for stage in state.stages}
    task = SearchTask(compute_dag=ComputeDAG(tensors), target="cuda")
    assert SketchPolicy(task, RandomModel(), seed=1, verbose=0).propose(4)


def layers(count, n=32):
    """Dense layers one after the other."""
    y = te.placeholder((n, n), name="X")
    tensors = [y]
    for i in range(count):
        tensors.append(te.placeholder((n, n), name=f"W{i}"))
        y = topi.nn.relu(topi.nn.dense(y, tensors[-1]))
    return [*tensors, y]


def test_a_long_sum_that_is_copied_to_shared_memory_has_a_kernel_of_its_own(tmp_path):
    a, b, c = matmul(4, 8, 512)
    w = te.placeholder((8, 16), name="W")
    k = te.reduce_axis((0, 8), name="r")
    d = te.compute((4, 16), lambda i, j: te.sum(c[i, k] * w[k, j], axis=k), name="D")
    task = SearchTask(compute_dag=ComputeDAG([a, b, w, d]), target="cuda")
    policy = SketchPolicy(task, RandomModel(), seed=1, verbose=0)
    together = [
        s for s in policy.generate_sketches() if stage_queries.is_cross_thread_reduced(s, 2)
    ]
    assert together
    assert not any(places(state)[1].get("C") for state in together)
    states = [RecordedState(tuple(s.transform_steps)) for s in policy.propose(12)]
    assert_states_compute_the_same(task.compute_dag, states, "cuda", tmp_path, 2e-3, 2e-4)


def test_of_many_sketches_those_that_treat_all_stages_alike_are_kept():
    every = {str(each.transform_steps) for each in sketches(layers(3), "llvm")}
    assert len(every) == 27
    some = [str(each.transform_steps) for each in sketches(layers(3), "llvm", most=9)]
    assert len(some) == 9
    assert set(some) < every
    assert {min(every, key=len), max(every, key=len)} <= set(some)
    assert some == [str(each.transform_steps) for each in sketches(layers(3), "llvm", most=9)]


@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_90"])
def test_many_products_in_one_graph_are_searched(target):
    tensors = layers(8, 64)
    task = SearchTask(compute_dag=ComputeDAG(tensors), target=target)
    policy = SketchPolicy(task, RandomModel(), seed=1, verbose=0)
    assert len(policy.propose(4)) == 4
    assert len(policy.sketches) <= 64


def same_but_for_lengths(sketch, recorded):
    """Compare two steps; TVM's evolution changes lengths, also those that a rule had set."""
    if isinstance(sketch, SplitStep) and isinstance(recorded, SplitStep):
        return replace(recorded, lengths=sketch.lengths) == sketch
    return sketch == recorded


@pytest.mark.parametrize("inp", RECORDS, ids=lambda inp: inp.task.workload_key[2:10])
def test_each_record_of_tvm_begins_with_one_of_our_sketches(inp):
    task = SearchTask(
        compute_dag=ComputeDAG(graph_of(inp.task.workload_key)),
        target=inp.target,
        hardware_params=inp.task.hardware_params,
    )
    steps = inp.state.transform_steps
    assert any(
        all(map(same_but_for_lengths, sketch.transform_steps, steps))
        for sketch in generate_sketches(task)
        if len(sketch.transform_steps) <= len(steps)
    )


def test_structures_are_free_parameters_of_two_letters():
    params = {"cpu_multi_level_tiling_structure": "srs"}
    found = sketches(matmul(64, 64, 64), "llvm", params=params)
    assert [loop.name for loop in found[0].stages[2].iters] == ["i.0", "j.0", "k", "i.1", "j.1"]
    with pytest.raises(TunerError, match="text of S and R"):
        sketches(matmul(64, 64, 64), "llvm", params={"cpu_multi_level_tiling_structure": "SST"})


# What they compute.


def fill(state, rng):
    """Give the open lengths of a sketch random divisors."""
    dag = state.compute_dag
    filled = dag.init_state
    for step in state.transform_steps:
        if isinstance(step, SplitStep) and None in step.lengths:
            left = filled.stages[step.stage_id].iters[step.iter_id].extent
            lengths = []
            for _ in step.lengths:
                lengths.append(rng.choice([n for n in range(1, left + 1) if left % n == 0]))
                left //= lengths[-1]
            rng.shuffle(lengths)
            step = replace(step, lengths=tuple(lengths))
        filled = step.apply(filled)
    return RecordedState(filled.transform_steps)


SMALL = {
    "matmul": lambda: matmul(24, 16, 12),
    "long": lambda: matmul(4, 4, 96),
    "sum": lambda: sum_of_products(16),
    "conv": lambda: conv_bn_relu(6, 4, 8),
    "min": lambda: row_minimum(6, 40),
    "softmax": lambda: softmax(6, 40),
    "winograd": lambda: winograd(2, 4, 2),
    "total": lambda: total(12),
    "second": lambda: sums_by_weights(6, 12),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", SMALL)
def test_sketches_on_the_cpu_compute_what_the_plain_schedule_does(name, tmp_path):
    rng = random.Random(name)
    found = sketches(SMALL[name](), "llvm")
    states = [fill(each, rng) for each in found]
    assert_states_compute_the_same(found[0].compute_dag, states, "c", tmp_path, 2e-3, 2e-4)
