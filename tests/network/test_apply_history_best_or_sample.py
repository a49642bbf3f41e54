"""Functions without a record get one, where a script asks for it as in TVM."""

import numpy as np
import pytest

from autotune import tvm
from autotune.auto_scheduler import ComputeDAG, RecordToFile, SearchTask, TuningOptions, XGBModel
from autotune.errors import RecordError
from autotune.tvm import auto_scheduler, relay
from autotune.tvm.contrib import graph_executor
from tests.auto_scheduler.graphs import matmul


def network():
    data, weight = relay.var("data", shape=(4, 24)), relay.var("weight", shape=(16, 24))
    module = tvm.IRModule.from_expr(relay.nn.relu(relay.nn.dense(data, weight)))
    rng = np.random.default_rng(0)
    return module, {"weight": rng.normal(size=(16, 24)).astype("float32")}


def test_a_network_runs_what_was_drawn_where_there_is_no_record():
    module, params = network()
    options = {"relay.backend.use_auto_scheduler": True}
    history = auto_scheduler.ApplyHistoryBestOrSample(None, num_measure=2)
    with history, tvm.transform.PassContext(opt_level=3, config=options):
        assert auto_scheduler.is_auto_scheduler_enabled()
        library = relay.build(module, target="llvm", params=params)
    assert not auto_scheduler.is_auto_scheduler_enabled()
    assert history.records()
    data = np.random.default_rng(1).normal(size=(4, 24)).astype("float32")
    run = graph_executor.GraphModule(library["default"](tvm.device("llvm", 0)))
    run.set_input("data", data)
    run.run()
    want = np.maximum(data @ params["weight"].T, 0)
    np.testing.assert_allclose(run.get_output(0).numpy(), want, rtol=1e-4, atol=1e-5)


def query(history, tensors):
    dag = ComputeDAG(tensors)
    return history.query("llvm", dag.workload_key(), dag=dag)


def test_what_a_log_has_is_not_drawn_again(tmp_path):
    log = tmp_path / "log.json"
    task = SearchTask(compute_dag=ComputeDAG(matmul(16, 16, 16)), target="llvm")
    task.tune(TuningOptions(3, verbose=0, measure_callbacks=[RecordToFile(str(log))]))
    model = XGBModel()
    model.update_from_file(log)
    model.save(tmp_path / "model.json")
    history = auto_scheduler.ApplyHistoryBestOrSample(
        str(log), cost_model_file=tmp_path / "model.json"
    )
    before = {key: dict(kinds) for key, kinds in history.records().items()}
    assert query(history, matmul(16, 16, 16)) is not None
    assert {key: dict(kinds) for key, kinds in history.records().items()} == before
    assert query(history, matmul(8, 8, 24)) is not None
    assert len(history.records()) > len(before)


def test_a_model_that_is_not_there_is_told(tmp_path):
    with pytest.raises(RecordError, match="cannot read"):
        auto_scheduler.ApplyHistoryBestOrSample(None, cost_model_file=tmp_path / "none.json")
