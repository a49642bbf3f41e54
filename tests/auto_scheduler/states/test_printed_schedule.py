"""Steps as python calls: TVM's text to the letter, and a text that runs."""

import json
from pathlib import Path

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG
from autotune.auto_scheduler.transform_steps import step_from_row
from autotune.lowering.lower import lower
from tests.auto_scheduler.graphs import matmul, tutorial_layer

DATA = Path(__file__).parents[2] / "data" / "auto_scheduler"


def tutorial_state():
    dag = ComputeDAG(tutorial_layer())
    rows = json.loads((DATA / "tutorial_steps.json").read_text())
    return dag, dag.init_state.after(map(step_from_row, rows))


def run(text, tensors):
    names = {}
    exec(text, names)
    return names["schedule"](tensors)


def test_the_tutorials_best_state_prints_as_in_the_tutorial():
    dag, state = tutorial_state()
    text = dag.print_python_code_from_state(state)
    assert text == (DATA / "tutorial_schedule.txt").read_text()


def test_the_runnable_text_gives_the_same_loops():
    dag, state = tutorial_state()
    text = dag.print_python_code_from_state(state, "python")
    printed = lower(*run(text, dag.tensors))
    assert str(printed) == str(lower(*dag.apply_steps_from_state(state)))


def factored_state():
    a, b, c = matmul(8, 8, 1024)
    out = te.compute((8, 8), lambda i, j: c[i, j] + a[i, j], name="C")
    dag = ComputeDAG([a, b, out])
    s = dag.get_init_state()
    cache = s.cache_write(c, "local")
    fused = s.fuse(cache, [s[cache].iters[2]])
    _, inner = s.split(cache, fused, [16], False)
    first = s.rfactor(cache, inner, 1)
    s.unroll(first, s[first].iters[0])
    s.split(first, s[first].iters[0], [2])
    s.split(cache, s[cache].iters[0], [4, 2])
    s.fuse(cache, s[cache].iters[:2])
    copy = s.cache_read(a, "local", [out])
    s.compute_at(copy, out, s[out].iters[1])
    s.vectorize(out, s[out].iters[1])
    s.pragma(out, s[out].iters[0], "auto_unroll_max_step$16")
    return dag, s


def test_caches_and_factored_reductions_print_as_in_tvm():
    dag, s = factored_state()
    lines = dag.print_python_code_from_state(s).splitlines()
    assert lines[2:12] == [
        'C_local, = s.cache_write([C], "local")',
        "C_local_i_c, C_local_j_c, C_local_k = "
        "tuple(C_local.op.axis) + tuple(C_local.op.reduce_axis)",
        "C_local_k = s[C_local].fuse(C_local_k)",
        "C_local_k_o, C_local_k_i = s[C_local].split(C_local_k, nparts=16)",
        "C_local_rf = s.rfactor(C_local, k_i, 1)",
        "C_local_rf_i_c, C_local_rf_k_i, C_local_rf_j_c, C_local_rf_k_o = "
        "tuple(C_local_rf.op.axis) + tuple(C_local_rf.op.reduce_axis)",
        "C_local_repl_ax0, C_local_repl_ax1, C_local_repl_k_i_v = "
        "tuple(s[C_local_repl].op.axis) + tuple(s[C_local_repl].op.reduce_axis)",
        "s[C_local_rf].unroll(C_local_rf_i_c)",
        "C_local_rf_i_c_o, C_local_rf_i_c_i = s[C_local_rf].split(C_local_rf_i_c, factor=2)",
        "C_local_repl_ax0_o_i, C_local_repl_ax0_i = "
        "s[C_local_repl].split(C_local_repl_ax0, factor=2)",
    ]
    assert 'A_local = s.cache_read(A, "local", [C])' in lines


def test_the_runnable_text_of_equal_names_and_factored_reductions_runs():
    dag, s = factored_state()
    printed = lower(*run(dag.print_python_code_from_state(s, "python"), dag.tensors))
    assert str(printed) == str(lower(*dag.apply_steps_from_state(s)))


def test_the_runnable_text_of_several_outputs_of_odd_names_runs():
    a = te.placeholder((8,), name="s")
    b = te.compute((8,), lambda i: a[i] + 1, name="lambda")
    c = te.compute((8,), lambda i: b[i] * 2, name="tensors")
    d = topi.nn.relu(b)
    dag = ComputeDAG([a, d, c])
    state = dag.get_init_state()
    state.split(c, state[c].iters[0], [4])
    printed = lower(*run(dag.print_python_code_from_state(state, "python"), dag.tensors))
    assert str(printed) == str(lower(*dag.apply_steps_from_state(state)))
