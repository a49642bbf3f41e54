"""Search tasks: what they are made from, and what is known of their device."""

import pickle

import pytest

from autotune import te
from autotune.auto_scheduler import (
    ComputeDAG,
    HardwareParams,
    LayoutRewriteOption,
    RecordToFile,
    SearchTask,
    TuningOptions,
    create_task,
    workload_registry,
)
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.target import Target
from tests.auto_scheduler.graphs import matmul

pytestmark = pytest.mark.usefixtures("own_workloads")

LAYER = (1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1))
NAMES = [
    "num_cores",
    "vector_unit_bytes",
    "cache_line_bytes",
    "max_shared_memory_per_block",
    "max_local_memory_per_block",
    "max_threads_per_block",
    "max_vthread_extent",
    "warp_size",
]


def test_a_cuda_task_needs_no_device():
    task = SearchTask(func="conv2d_layer", args=LAYER, target="cuda")
    assert task.workload_key == '["conv2d_layer", 1, 7, 7, 512, 512, 3, 3, [1, 1], [1, 1]]'
    assert task.hardware_params.to_row() == [-1, 16, 64, 49152, 2147483647, 1024, 8, 32]
    assert task.layout_rewrite_option == LayoutRewriteOption.NO_REWRITE


def test_one_trial_says_that_nothing_is_measured(caplog, tmp_path):
    task = SearchTask(func="matmul", args=(8, 8, 8), target="llvm")
    log = tmp_path / "one.json"
    task.tune(TuningOptions(num_measure_trials=1, measure_callbacks=[RecordToFile(str(log))]))
    assert "num_measure_trials=1 measures nothing" in caplog.text
    assert not log.exists()


def test_the_way_of_each_generation_gives_the_same_task():
    dag = ComputeDAG(matmul(16, 16, 8))
    params = HardwareParams(4, 64, 64)
    tasks = [
        create_task("matmul", (16, 16, 8), "llvm", hardware_params=params),
        SearchTask(func="matmul", args=(16, 16, 8), target=Target("llvm"), hardware_params=params),
        SearchTask(dag, '["matmul", 16, 16, 8]', Target("llvm"), None, params),
        SearchTask(dag, '["matmul", 16, 16, 8]', target="llvm", hardware_params=params),
        SearchTask(workload_key='["matmul", 16, 16, 8]', target="llvm", hardware_params=params),
    ]
    assert len(set(tasks)) == 1
    assert {str(task.compute_dag) for task in tasks} == {str(dag)}
    assert all(task.hardware_params == params for task in tasks)


def test_a_graph_alone_has_the_key_of_its_hash_and_is_registered_under_it():
    dag = ComputeDAG(matmul(16, 16, 8))
    task = SearchTask(compute_dag=dag, target="llvm")
    assert task.workload_key == dag.workload_key()
    assert SearchTask(workload_key=task.workload_key, target="llvm") == task


def test_a_graph_whose_result_is_one_number_is_tuned(tmp_path):
    x = te.placeholder((6, 7), "float32", "x")
    k = [te.reduce_axis((0, n), f"k{n}") for n in x.shape]
    total = te.compute((), lambda: te.sum(x[k[0], k[1]], axis=k), "total")
    for target in ("c", "cuda -emulate"):
        task = SearchTask(compute_dag=ComputeDAG([x, total]), target=target)
        log = str(tmp_path / f"{target[:1]}.json")
        task.tune(TuningOptions(2, measure_callbacks=[RecordToFile(log)], verbose=0))
        _, tensors = task.apply_best(log)
        assert tensors[1].shape == ()


def test_what_is_missing_is_said():
    with pytest.raises(AssertionError, match="Must specify a target"):
        SearchTask(func="matmul", args=(8, 8, 8))
    with pytest.raises(AssertionError, match="workload generation function or a workload key"):
        SearchTask(target="llvm")
    with pytest.raises(ValueError, match="'gemm' is not registered"):
        SearchTask(func="gemm", args=(8, 8, 8), target="llvm")


def test_a_copy_is_the_same_task_and_knows_its_graph_without_a_registry():
    dag = ComputeDAG(matmul(16, 16, 8))
    task = SearchTask(
        compute_dag=dag, target="cuda", hardware_params=HardwareParams(2, target="cuda")
    )
    data = pickle.dumps(task)
    workload_registry.WORKLOAD_FUNC_REGISTRY.clear()
    copy = pickle.loads(data)
    assert copy == task
    assert copy.hardware_params == task.hardware_params
    assert SearchTask(workload_key=copy.workload_key, target="cuda") == task


def test_names_of_inputs_keep_their_order():
    names = ["b", "a"]
    task = SearchTask(func="matmul", args=(8, 8, 8), target="llvm", task_inputs=names)
    assert task.task_input_names == names


@pytest.mark.parametrize(
    ("target", "row"),
    [
        ("cuda", [-1, 16, 64, 49152, 2147483647, 1024, 8, 32]),
        ("rocm", [-1, 16, 64, 49152, 2147483647, 1024, 8, 32]),
        ("metal", [-1, 16, 64, 32768, 2147483647, 1024, 2, 8]),
        ("opencl -device=mali", [-1, 16, 64, 32768, 2147483647, 256, 1, 1]),
        ("opencl -device=adreno", [-1, 16, 64, 32768, 32768, 256, 1, 1]),
    ],
)
def test_defaults_are_those_that_records_of_the_target_have(target, row):
    assert HardwareParams(target=target).to_row() == row


def test_a_cpu_has_as_many_cores_as_a_parallel_loop_runs_on(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert HardwareParams(target="llvm").to_row() == [3, 64, 64, 0, 0, 0, 0, 0]


def test_what_is_given_wins_and_the_text_names_all():
    params = HardwareParams(num_cores=4, max_threads_per_block=256, target="cuda")
    assert (params.num_cores, params.max_threads_per_block, params.warp_size) == (4, 256, 32)
    values = [4, 16, 64, 49152, 2147483647, 256, 8, 32]
    lines = [f"  {name}: {value}" for name, value in zip(NAMES, values, strict=True)]
    assert str(params) == "\n".join(["HardwareParams:", *lines, ""])
    assert HardwareParams.from_row(params.to_row()) == params


def test_the_plain_state_of_a_task_is_a_schedule_with_its_reference():
    task = SearchTask(func="matmul", args=(8, 8, 8), target="c")
    made = task.realise(RecordedState(()))
    schedule, tensors = made.what
    assert schedule == te.create_schedule(task.compute_dag.tensors[-1].op)
    assert tuple(tensors) == task.compute_dag.tensors == made.reference.tensors
    assert (made.flop, made.bytes) == (2 * 8**3, 3 * 8 * 8 * 4)
