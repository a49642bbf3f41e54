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


def test_the_folder_itself_has_tvms_names_too():
    ours = importlib.import_module("autotune.auto_scheduler")
    wing = importlib.import_module("autotune.tvm.auto_scheduler")
    missing = [name for name in wing.__all__ if not hasattr(ours, name)]
    assert missing == []
    assert ours.ApplyHistoryBest is wing.ApplyHistoryBest
    assert callable(ours.measure_record.load_record_from_string)
    with pytest.raises(AttributeError, match="did you mean 'SketchPolicy'"):
        _ = ours.SketchPolicies


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


@pytest.mark.many_cases
@pytest.mark.parametrize(
    "module", ["autotune.auto_scheduler", "autotune.tvm.auto_scheduler", "tvm.auto_scheduler"]
)
def test_a_log_is_distilled_by_tvms_command(module, tmp_path):
    best = tmp_path / "best.json"
    served = ["-m", "autotune.tvm"] if module.startswith("tvm.") else []
    command = [sys.executable, *served, "-m", f"{module}.measure_record", "--mode", "distill"]
    subprocess.run([*command, "-i", str(LOG), "-o", str(best)], check=True, timeout=60)
    (line,) = best.read_text().splitlines()
    assert line.startswith('{"i": [["[\\"conv2d_layer\\"')


def test_every_module_of_tvms_package_is_there_under_its_name():
    for name in (
        "compute_dag", "cost_model", "dispatcher", "feature", "loop_state", "measure",
        "measure_record", "relay_integration", "search_policy", "search_task", "task_scheduler",
        "cost_model.cost_model", "cost_model.xgb_model", "utils", "workload_registry",
    ):  # fmt: skip
        module = importlib.import_module(f"autotune.tvm.auto_scheduler.{name}")
        assert all(hasattr(module, each) for each in getattr(module, "__all__", ()))
    assert tvm.auto_scheduler.dispatcher.load_records is auto_scheduler.load_records
    assert tvm.auto_scheduler.utils.request_remote is tvm.autotvm.measure.request_remote
    assert len(tvm.auto_scheduler.feature.get_per_store_feature_names()) == 164


def test_a_task_of_a_graph_may_have_any_text_for_its_key(tmp_path):
    dag = product_task().compute_dag
    task = auto_scheduler.SearchTask(compute_dag=dag, workload_key="mine", target="llvm")
    assert task.workload_key == "mine"
    assert auto_scheduler.SearchTask(workload_key="mine", target="llvm") == task
    line = dump_record_to_string(
        MeasureInput(task, dag.init_state), MeasureResult([0.1], 0, "", 0.2, 1)
    )
    inp, _ = auto_scheduler.measure_record.load_record_from_string(line)
    assert inp.task.workload_key == "mine"
    again = auto_scheduler.measure.recover_measure_input(inp).task
    assert str(again.compute_dag) == str(dag)


def test_a_graph_is_made_of_the_key_of_a_workload():
    task = product_task()
    dag = auto_scheduler.ComputeDAG(task.workload_key)
    assert str(dag) == str(task.compute_dag)
    assert dag.access_analyzer is dag.access
    with pytest.raises(tvm._ffi.base.TVMError, match="is not registered"):
        auto_scheduler.ComputeDAG('["nobody", 1]')


def test_results_and_inputs_of_callbacks_are_what_tvms_names_say():
    inp = MeasureInput(product_task(), product_task().compute_dag.get_init_state())
    result = MeasureResult([0.25, 0.5], 0, "", 1.0, 2)
    assert isinstance(result, auto_scheduler.MeasureResult)
    assert isinstance(inp, auto_scheduler.MeasureInput)
    assert not isinstance(inp, auto_scheduler.MeasureResult)
    assert [cost.value for cost in result._replace(costs=(0.5,)).costs] == [0.5]
    assert auto_scheduler.utils.array_mean(result.costs) == 0.375
    callback = auto_scheduler.measure.PythonBasedMeasureCallback()
    with pytest.raises(NotImplementedError, match="must define callback"):
        callback.callback(None, [inp], [result])


def test_a_task_goes_through_the_text_of_a_record():
    task = product_task()
    text = _ffi_api.SerializeSearchTask(task)
    again = _ffi_api.DeserializeSearchTask(text)
    assert (again, again.hardware_params) == (task, task.hardware_params)
    older = '["[\\"compat_product\\", 64]", "cuda"]'
    assert _ffi_api.DeserializeSearchTask(older).workload_key == task.workload_key
    for wrong in ("{", "[1]", "[" * 100000):
        with pytest.raises(tvm.TVMError):
            _ffi_api.DeserializeSearchTask(wrong)


def test_a_custom_rule_asks_who_reads_a_stage_and_how():
    a = te.placeholder((8, 8), name="A")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 8), lambda i, j: b[i, j] * 2.0, name="C")
    d = te.compute((8, 8), lambda i, j: c[j, i] * 2.0, name="D")
    dag = auto_scheduler.ComputeDAG([a, d])
    task = auto_scheduler.SearchTask(compute_dag=dag, target="llvm")
    state = dag.get_init_state()
    asked = _ffi_api.SearchPolicyUtilsGetConsumers(task, state.state_object, 1)
    assert (len(asked), asked.items()[0][0]) == (1, 2)
    assert _ffi_api.SearchPolicyUtilsIsElementwiseMatch(task, state, 1, 2)
    assert not _ffi_api.SearchPolicyUtilsIsElementwiseMatch(task, state, 2, 3)
    state.compute_inline(2)
    assert list(_ffi_api.SearchPolicyUtilsGetConsumers(task, state, 1)) == [3]


def test_the_oldest_way_to_make_a_target_still_does():
    assert tvm.target.create("llvm -mcpu=core-avx2") == tvm.target.Target("llvm -mcpu=core-avx2")
    assert tvm.target.create("cuda", "llvm").host == tvm.target.Target("llvm")
    assert tvm.target.Target("llvm -mcpu=core-avx2").mcpu == "core-avx2"
    assert tvm.target.Target("llvm").mcpu == ""
    assert tvm.topi.get_const_tuple((1, te.const(2, "int32"))) == (1, 2)
    assert auto_scheduler.utils.list_to_tuple([1, [2, "a"]]) == (1, (2, "a"))
    assert auto_scheduler.utils.get_func_name(product_task) == "product_task"


def test_steps_tell_their_kind_by_tvms_names():
    dag = product_task().compute_dag
    s = dag.get_init_state()
    s.split(2, s[2].iters[0], [4, 2])
    s.pragma(2, s[2].iters[0], "auto_unroll_max_step$16")
    split, hint = s.transform_steps
    assert (split.type_key, hint.type_key) == (
        "auto_scheduler.SplitStep", "auto_scheduler.PragmaStep",
    )  # fmt: skip
    assert (list(split.lengths), hint.pragma_type) == ([4, 2], "auto_unroll_max_step$16")


@pytest.mark.parametrize(
    ("name", "args", "target", "count"),
    [
        ("matmul_auto_scheduler_test", (512, 512, 512), "llvm", 3),
        ("matmul_auto_scheduler_test_rename_1", (8, 8, 512), "llvm", 5),
        ("double_matmul_auto_scheduler_test", (512,), "llvm", 9),
        ("conv2d_nchw_bn_relu_auto_scheduler_test", (1, 56, 56, 8, 8, 3, 1, 1), "cuda", 1),
        ("conv2d_winograd_nhwc_auto_scheduler_test", (1, 28, 28, 16, 16, 3, 1, 1), "llvm", 3),
        ("max_pool2d_auto_scheduler_test", (1, 56, 56, 512, 1), "cuda", 1),
        ("min_nm_auto_scheduler_test", (10, 1024), "llvm", 3),
        ("softmax_nm_auto_scheduler_test", (2, 1024), "cuda", 4),
        ("softmax_abcd_auto_scheduler_test", (1, 12, 128, 128), "llvm", 9),
        ("zero_rank_reduce_auto_scheduler_test", (128,), "llvm", 3),
        ("zero_rank_compute_auto_scheduler_test", (10,), "llvm", 1),
    ],
)
def test_the_graphs_that_tvms_tests_share_are_there_and_have_its_sketches(
    name, args, target, count
):
    shared = importlib.import_module("autotune.tvm.testing.auto_scheduler")
    for each in shared.__all__:
        if each not in WORKLOAD_FUNC_REGISTRY and each.endswith("_test"):
            auto_scheduler.register_workload(getattr(shared, each))
    auto_scheduler.register_workload(
        "matmul_auto_scheduler_test_rename_1", shared.matmul_auto_scheduler_test_rename_0,
        override=True,
    )  # fmt: skip
    task = auto_scheduler.SearchTask(
        func=name, args=args, target=target,
        hardware_params=auto_scheduler.HardwareParams(num_cores=4, target=target),
    )  # fmt: skip
    assert len(auto_scheduler.SketchPolicy(task).generate_sketches()) == count


def test_the_product_that_tvms_tests_share_has_tiles_of_four_levels():
    shared = importlib.import_module("autotune.tvm.testing.auto_scheduler")
    dag, state = shared.get_tiled_matmul()
    assert [loop.extent for loop in state[2].iters] == [2, 4, 4, 8, 8, 4, 8, 4, 512]
    assert len(dag.apply_steps_from_state(state)[1]) == 3
    a, b, c, d, e = shared.parallel_matmul_auto_scheduler_test(8)
    assert len(auto_scheduler.ComputeDAG([a, b, c, d, e]).ops) == 5
    with pytest.raises(tvm.TVMError, match="was given a name that another axis has"):
        auto_scheduler.ComputeDAG(shared.invalid_compute_definition())


def test_a_policy_takes_its_cost_model_by_the_name_of_tvm_0_7():
    model = tvm.auto_scheduler.RandomModel()
    for name in ("schedule_cost_model", "program_cost_model"):
        policy = tvm.auto_scheduler.SketchPolicy(product_task(), **{name: model})
        assert isinstance(policy, auto_scheduler.SketchPolicy)
        assert policy.program_cost_model is model
