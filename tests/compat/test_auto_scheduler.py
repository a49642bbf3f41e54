"""Scripts of TVM's auto-scheduler: its names, its layout, its command."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from autotune import tvm
from autotune.tvm import auto_scheduler, te
from autotune.tvm.auto_scheduler import _ffi_api
from autotune.tvm.auto_scheduler.loop_state import Stage, State
from autotune.tvm.auto_scheduler.measure import MeasureInput, MeasureResult
from autotune.tvm.auto_scheduler.measure_record import dump_record_to_string
from autotune.tvm.auto_scheduler.workload_registry import WORKLOAD_FUNC_REGISTRY

LOG = Path(__file__).parents[1] / "data" / "auto_scheduler" / "conv2d.json"


@pytest.fixture(autouse=True)
def _workloads():
    kept = dict(WORKLOAD_FUNC_REGISTRY)
    yield
    WORKLOAD_FUNC_REGISTRY.clear()
    WORKLOAD_FUNC_REGISTRY.update(kept)


def product_task():
    @auto_scheduler.register_workload("compat_product", override=True)
    def product(n):
        a = te.placeholder((n, n), name="A")
        b = te.placeholder((n, n), name="B")
        k = te.reduce_axis((0, n), name="k")
        return [a, b, te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")]

    target = tvm.target.Target("cuda")
    return auto_scheduler.SearchTask(func="compat_product", args=(64,), target=target)


def test_states_are_made_read_and_asked_as_in_tvm():
    dag = product_task().compute_dag
    s0 = dag.get_init_state()
    c = s0.stage_ops[2]
    its = s0.split(c, s0[c].iters[0], [4])
    bound = s0.bind(c, its[0], "blockIdx.x")
    assert bound.annotation == State.ANNOTATION_TRANS_TABLE["blockIdx.x"]
    assert s0[c].compute_at == Stage.COMPUTE_AT_TRANS_TABLE["root"]
    cache = s0.cache_read(0, "shared", [c])
    assert _ffi_api.SearchPolicyUtilsIsTiled(s0[c])
    assert not _ffi_api.SearchPolicyUtilsIsTiled(s0[cache])
    assert _ffi_api.SearchPolicyUtilsHasCacheReadStage(s0, 0)
    assert not _ffi_api.SearchPolicyUtilsHasCacheWriteStage(s0.state_object, 3)
    assert not _ffi_api.SearchPolicyUtilsHasRfactorStage(s0, 3)
    assert not _ffi_api.SearchPolicyUtilsHasCrossThreadReduction(s0, 3)
    again = State(s0.state_object, dag)
    assert again == s0
    sch, args = dag.apply_steps_from_state(again)
    assert [tensor.name for tensor in args] == ["A", "B", "C"]
    assert "compute_at" not in dag.print_python_code_from_state(again)
    assert sch[args[2]].op.name == "C"


def test_a_result_has_tvms_order_of_arguments_and_costs_have_values(tmp_path):
    inp = MeasureInput(product_task(), product_task().compute_dag.get_init_state())
    result = MeasureResult([0.25], 0, "", 1.0, 2)
    line = dump_record_to_string(inp, result)
    _, again = auto_scheduler.measure_record.load_record_from_string(line)
    assert [cost.value for cost in again.costs] == [0.25]
    assert (again.error_no, again.all_cost, again.timestamp) == (0, 1.0, 2)
    log = tmp_path / "log.json"
    auto_scheduler.save_records(str(log), [inp], [result])
    best, _ = auto_scheduler.load_best_record(str(log), inp.task.workload_key, inp.task.target)
    assert best.state.transform_steps == ()
    recovered = auto_scheduler.measure.recover_measure_input(best, rebuild_state=True)
    assert len(recovered.state.stages) == 3
    failed = MeasureResult([1e10], 4, "no", 1.0, 2)
    assert not failed.ok
    assert failed.error_msg == "no"


@pytest.mark.parametrize("module", ["autotune.auto_scheduler", "autotune.tvm.auto_scheduler"])
def test_a_log_is_distilled_by_tvms_command(module, tmp_path):
    best = tmp_path / "best.json"
    command = [sys.executable, "-m", f"{module}.measure_record", "--mode", "distill"]
    subprocess.run([*command, "-i", str(LOG), "-o", str(best)], check=True, timeout=60)
    (line,) = best.read_text().splitlines()
    assert line.startswith('{"i": [["[\\"conv2d_layer\\"')


def test_every_module_of_tvms_package_is_there_under_its_name():
    for name in (
        "compute_dag", "cost_model", "dispatcher", "feature", "loop_state", "measure",
        "measure_record", "relay_integration", "search_policy", "search_task", "task_scheduler",
        "utils", "workload_registry",
    ):  # fmt: skip
        module = importlib.import_module(f"autotune.tvm.auto_scheduler.{name}")
        assert all(hasattr(module, each) for each in getattr(module, "__all__", ()))
    assert len(tvm.auto_scheduler.feature.get_per_store_feature_names()) == 164
