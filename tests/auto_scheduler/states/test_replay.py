"""Records of TVM replay: each gives a schedule that lowers for its target, and computes right."""

import json
from pathlib import Path

import pytest

from autotune import te
from autotune.auto_scheduler import ComputeDAG, load_records
from tests.auto_scheduler.graphs import matmul, tutorial_layer
from tests.auto_scheduler.resnet18 import build, printed_tasks
from tests.auto_scheduler.running import assert_states_compute_the_same, kernel_of

DATA = Path(__file__).parents[2] / "data" / "auto_scheduler"


def matmul_add(n, m, k):
    """The graph of TVM's tutorial on the CPU."""
    a, b, product = matmul(n, m, k)
    c = te.placeholder((n, m), name="C")
    out = te.compute((n, m), lambda i, j: product[i, j] + c[i, j], name="out")
    return [a, b, c, out]


def graph_of(key):
    name, *shapes = json.loads(key)
    if name == "conv2d_layer":
        return tutorial_layer()
    if name == "matmul_add":
        return matmul_add(*shapes[:3])
    tasks = printed_tasks()
    # Pools have had other names, and so other hashes.
    same = [task for task in tasks if task.key == key] or [t for t in tasks if t.shapes == shapes]
    return build(same[0])


RECORDS = [
    inp
    for name in ("conv2d.json", "matmul.json", "resnet-18-NHWC-B1-cuda.json")
    for inp, _ in load_records(DATA / name)
]
SMALL = [inp for inp in RECORDS if inp.task.workload_key[2:6] in ("7d79", "00a0", "be3b")]


def language(inp):
    return "cuda" if inp.target.kind == "cuda" else "c"


@pytest.mark.many_cases
@pytest.mark.parametrize("inp", RECORDS, ids=lambda inp: inp.task.workload_key[2:10])
def test_every_record_gives_a_kernel_and_bounds(inp):
    dag = ComputeDAG(graph_of(inp.task.workload_key))
    kernel = kernel_of(dag, inp.state, language(inp), "k")
    assert "k" in kernel.source
    state = dag.infer_bound_from_state(inp.state)
    computed = [s for s in state.stages if s.is_compute and s.compute_at != 1]
    assert all(loop.range is not None for stage in computed for loop in stage.iters)
    names = {}
    exec(dag.print_python_code_from_state(inp.state, "python"), names)
    printed, _ = names["schedule"](dag.tensors)
    replayed, _ = dag.apply_steps_from_state(inp.state)
    assert list(map(str, printed.stages)) == list(map(str, replayed.stages))


@pytest.mark.parametrize("inp", SMALL, ids=lambda inp: inp.task.workload_key[2:10])
def test_small_records_compute_what_the_plain_schedule_does(inp, tmp_path):
    dag = ComputeDAG(graph_of(inp.task.workload_key))
    assert_states_compute_the_same(dag, [inp.state], language(inp), tmp_path)


def test_steps_of_a_record_compute_the_same_on_smaller_sizes(tmp_path):
    (inp,) = [each for each in RECORDS if "matmul_add" in each.task.workload_key]
    dag = ComputeDAG(matmul_add(128, 64, 32))
    assert_states_compute_the_same(dag, [inp.state], "c", tmp_path)
