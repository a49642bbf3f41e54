"""Weights in the order of the loops of a state: copied there by the kernel, or taken so."""

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG, LayoutRewriteOption
from tests.golden.case import case


def tiled():
    """Return a dense layer with ReLU in tiles of 4 rows and 8 columns, summed apart."""
    x, w = te.placeholder((8, 16), name="x"), te.placeholder((32, 16), name="w")
    dag = ComputeDAG([x, w, topi.nn.relu(topi.nn.dense(x, w))])
    state = dag.get_init_state()
    product, out = 2, 3
    rows = state.split(out, state.stages[out].iters[0], [4])
    columns = state.split(out, state.stages[out].iters[2], [8])
    state.reorder(out, [rows[0], columns[0], rows[1], columns[1]])
    state.compute_at(product, out, state.stages[out].iters[1])
    i, j, k = state.stages[product].iters
    state.reorder(product, [k, i, j])
    state.vectorize(product, state.stages[product].iters[2])
    state.vectorize(out, state.stages[out].iters[3])
    return dag, state


@case("c")
def weights_copied_to_tiles():
    dag, state = tiled()
    option = LayoutRewriteOption.INSERT_TRANSFORM_STAGE
    schedule, tensors = dag.apply_steps_from_state(state, option)
    return schedule, list(tensors)


@case("c")
def weights_in_tiles():
    dag, state = tiled()
    option = LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED
    schedule, tensors = dag.apply_steps_from_state(state, option)
    return schedule, list(tensors)
