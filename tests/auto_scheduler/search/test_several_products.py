"""Graphs of several products: each kernel keeps the limits, whichever instructions it has."""

import numpy as np
import pytest

from autotune import driver, te
from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy, XGBModel
from autotune.auto_scheduler.fallback import fallback_schedule
from autotune.auto_scheduler.search.analytical.several import SeveralCostModel
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.auto_scheduler.states.loop_state import plain_state
from autotune.codegen import kernel_of_schedule
from autotune.target import Target
from tests.auto_scheduler.running import assert_states_compute_the_same, kernel_of

PARAMS = SketchPolicy.DEFAULT_PARAMS


def wide(value):
    return value.astype("float32")


def dense(a, w, name):
    """Return the sums of a product whose second matrix is stored as [n, k]."""
    k = te.reduce_axis((0, a.shape[1]), f"{name}.k")
    return te.compute(
        (a.shape[0], w.shape[0]),
        lambda i, j: te.sum(wide(a[i, k]) * wide(w[j, k]), axis=k),
        name,
    )


def matrices(**shapes):
    return [te.placeholder(shape, "float16", name) for name, shape in shapes.items()]


def gated(m, n, k):
    """Two products of one matrix, one of which lets the other through."""
    a, w, v = matrices(a=(m, k), w=(n, k), v=(n, k))
    gate, up = dense(a, w, "gate"), dense(a, v, "up")
    value = te.compute(
        (m, n),
        lambda i, j: (gate[i, j] * te.sigmoid(gate[i, j]) * up[i, j]).astype("float16"),
        "gated",
    )
    return [a, w, v, value]


def attention(heads, length, depth):
    """Two products with a softmax between."""
    q, k, v = (te.placeholder((heads, length, depth), "float16", name) for name in "qkv")
    d = te.reduce_axis((0, depth), "d")
    t = [te.reduce_axis((0, length), f"t{i}") for i in range(3)]
    square = (heads, length, length)

    def score(h, i, j):
        return te.sum(wide(q[h, i, d]) * wide(k[h, j, d]), axis=d)

    scores = te.compute(square, score, "scores")
    most = te.compute((heads, length), lambda h, i: te.max(scores[h, i, t[0]], axis=t[0]), "most")
    exp = te.compute(square, lambda h, i, j: te.exp(scores[h, i, j] - most[h, i]), "exp")
    total = te.compute((heads, length), lambda h, i: te.sum(exp[h, i, t[1]], axis=t[1]), "total")
    share = te.compute(
        square, lambda h, i, j: (exp[h, i, j] / total[h, i]).astype("float16"), "share"
    )
    shape = (heads, length, depth)
    sums = te.compute(
        shape, lambda h, i, c: te.sum(wide(share[h, i, t[2]]) * wide(v[h, t[2], c]), axis=t[2])
    )
    return [q, k, v, te.compute(shape, lambda *i: sums(*i).astype("float16"), "seen")]


def residual(m, n):
    """A product that is added to one of its own operands."""
    a, w = matrices(a=(m, n), w=(n, n))
    sums = dense(a, w, "sums")
    return [a, w, te.compute((m, n), lambda i, j: (sums[i, j] + wide(a[i, j])).astype("float16"))]


LARGE = {"gated": gated(512, 2816, 1024), "attention": attention(16, 512, 64)}
SMALL = {
    "gated": gated(64, 128, 64),
    "attention": attention(2, 64, 32),
    "residual": residual(64, 128),
}


def task_of(tensors, arch="sm_90"):
    return SearchTask(compute_dag=ComputeDAG(tensors), target=f"cuda -arch={arch}")


@pytest.mark.many_cases
@pytest.mark.parametrize("name", LARGE)
def test_all_that_is_proposed_fits_the_device(name):
    task = task_of(LARGE[name])
    proposed = SketchPolicy(task, XGBModel(), seed=0).propose(16)
    assert len(proposed) > 8
    dag = task.compute_dag.init_state.dag
    for each in proposed:
        state = plain_state(dag).after(each.transform_steps)
        kernel_of(task.compute_dag, state, "cuda", "kernel")  # limits are checked


@pytest.mark.many_cases
@pytest.mark.parametrize("name", SMALL)
def test_products_of_one_graph_compute_what_the_definition_says(name, tmp_path):
    task = task_of(SMALL[name])
    rng, dag = np.random.default_rng(0), task.compute_dag.init_state.dag
    models = [
        each
        for each in programs_of(task, sketches_of(task, PARAMS), PARAMS)
        if sum(bool(stage.attrs.tensor_core) for stage in each.program.state.stages)
    ]
    assert any(isinstance(each, SeveralCostModel) for each in models) == (name != "residual")
    states = [
        plain_state(dag).after(model.program.candidate(row).transform_steps)
        for model in (models[0], models[len(models) // 2], models[-1])
        for row in RowSampler(model.program, model.limits(), rng).draw(1)
    ]
    assert len(states) == 3
    assert_states_compute_the_same(task.compute_dag, states, "cuda", tmp_path, 1e-2, 1e-2)


def test_times_of_products_and_of_what_is_around_them_add_up():
    task = task_of(LARGE["gated"])
    models = programs_of(task, sketches_of(task, PARAMS), PARAMS)
    several = [each for each in models if isinstance(each, SeveralCostModel)]
    model = next(each for each in several if len({one.root for one in each.products}) == 2)
    rows = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(16)
    found = model(rows)
    assert found.feasible.all()
    own = sum(each.alone(rows).seconds for each in model.products)
    # The gate is written and read again: 2 x 512 x 2816 floats.
    device = model.others.device
    passed = 2 * 512 * 2816 * 4 / device.memory_bytes_per_s
    np.testing.assert_allclose(found.seconds, own + passed)


def test_the_untuned_schedule_of_two_products_of_the_same_rows_is_one_kernel_of_tensor_cores():
    target = Target("cuda -arch=sm_90")
    schedule, tensors = fallback_schedule(LARGE["gated"], target)
    kernel = kernel_of_schedule(schedule, list(tensors), target, "gated")
    assert len(kernel.calls) == 1
    assert "wgmma.mma_async" in kernel.source


def in_the_same_tiles(task):
    """Return the cost models of programs that compute both products in one kernel."""
    models = programs_of(task, sketches_of(task, PARAMS), PARAMS)
    several = [each for each in models if isinstance(each, SeveralCostModel)]
    return [each for each in several if each.products[0].together == 2]


def test_two_products_in_the_same_tiles_compute_what_the_definition_says(tmp_path):
    task = task_of(gated(96, 128, 128))
    models, dag = in_the_same_tiles(task), task.compute_dag.init_state.dag
    assert len(models) == 2  # for mma.sync and for wgmma
    states = [
        plain_state(dag).after(model.program.candidate(row).transform_steps)
        for model in models
        for row in RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(2)
    ]
    assert_states_compute_the_same(task.compute_dag, states, "cuda", tmp_path, 1e-2, 1e-2)


def test_the_second_of_two_products_by_wgmma_takes_the_shared_memory_of_the_first_over():
    task = task_of(LARGE["gated"])
    model = in_the_same_tiles(task)[-1]
    rows = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(12)
    shape = model.products[0].shape(rows)
    for i, row in enumerate(rows):
        state = model.program.candidate(row)
        kernel = driver.kernel_of(task.realise(state).what, task.target, "kernel")
        (call,) = kernel.calls
        assert call.launch.shared_bytes in (0, shape.shared_bytes[i])
        assert np.prod(call.launch.grid) == shape.blocks[i]
        text = kernel.source
        between = text[text.index(" = 0.0f", text.rindex("(gate[0], ")) : text.index("(up[0], ")]
        assert between.index("__syncthreads();") < between.index("a_shared +")


def test_estimates_rank_small_tiles_of_two_products_before_large_ones_as_an_h200_did():
    """Three blocks of a multiprocessor share what the second-level cache gives it."""
    task = task_of(gated(512, 5632, 2048))
    model = in_the_same_tiles(task)[-1]
    rows = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(1024)
    shape, seconds = model.products[0].shape(rows), model(rows).seconds

    def fastest(tile_rows, buffers):
        tiles = (shape.tile_rows == tile_rows) & (shape.tile_columns == 128)
        return seconds[tiles & (shape.buffers == buffers)].min()

    assert fastest(64, 3) < fastest(128, 6)


def test_products_that_add_up_different_numbers_of_terms_stay_apart():
    a, b, w, v = matrices(a=(128, 128), b=(128, 256), w=(128, 128), v=(128, 256))
    gate, up = dense(a, w, "gate"), dense(b, v, "up")
    out = te.compute((128, 128), lambda i, j: (gate[i, j] * up[i, j]).astype("float16"), "out")
    assert not in_the_same_tiles(task_of([a, b, w, v, out]))


def test_a_batch_is_full_where_most_numbers_change_no_estimate():
    a, w = matrices(a=(512, 1024), w=(1024, 1024))
    product = dense(a, w, "product")
    sums = te.compute((512, 1024), lambda i, j: product[i, j] + wide(a[i, j]), "sums")
    j, k = te.reduce_axis((0, 1024), "j"), te.reduce_axis((0, 1024), "k")
    mean = te.compute((512,), lambda i: te.sum(sums[i, j], axis=j), "mean")
    squares = te.compute((512,), lambda i: te.sum(sums[i, k] * sums[i, k], axis=k), "squares")
    norm = te.compute(
        (512, 1024),
        lambda i, j: ((sums[i, j] - mean[i]) * te.rsqrt(squares[i])).astype("float16"),
        "norm",
    )
    proposed = SketchPolicy(task_of([a, w, norm]), XGBModel(), seed=0).propose(16)
    assert len({each.transform_steps for each in proposed}) == 16


def test_a_product_that_is_an_output_and_is_read_has_a_kernel_of_its_own(pytestconfig):
    a, w, v = matrices(a=(128, 128), w=(128, 128), v=(128, 128))
    gate, up = dense(a, w, "gate"), dense(a, v, "up")
    out = te.compute((128, 128), lambda i, j: (gate[i, j] * up[i, j]).astype("float16"), "out")
    task = task_of([a, w, v, up, out])
    models = programs_of(task, sketches_of(task, PARAMS), PARAMS)
    several = [each for each in models if isinstance(each, SeveralCostModel)]
    assert len(several) > 10
    for model in several:
        assert len({each.root for each in model.products}) == len(model.products)
    for model in several[:: 1 if pytestconfig.getoption("--all-cases") else 7]:
        rows = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(1)
        for row in rows:
            driver.kernel_of(
                task.realise(model.program.candidate(row)).what, task.target, "kernel"
            )
