"""Graph tuners, as scripts for x86 call them between tuning and compiling."""

import numpy as np
import pytest

from autotune import tvm
from autotune.errors import GraphError, TunerError
from autotune.measure.types import MeasureResult
from autotune.record.reader import LogMissingError
from autotune.tvm import autotvm, relay
from autotune.tvm.autotvm.graph_tuner import DPTuner, PBQPTuner
from autotune.tvm.contrib import graph_executor
from tests.graph.networks import drawn


@pytest.fixture(scope="module")
def network():
    """A network of two convolutions, one of whose records is the best of three."""
    data = relay.var("data", shape=(1, 8, 10, 10))
    first = relay.nn.conv2d(data, relay.var("a_weight"), channels=8, kernel_size=(3, 3))
    second = relay.nn.conv2d(first, relay.var("b_weight"), channels=16, kernel_size=(1, 1))
    module, params = relay.testing.create_workload(relay.nn.relu(second))
    tasks = autotvm.task.extract_from_program(
        module["main"], target="llvm", params=params, ops=(relay.op.get("nn.conv2d"),)
    )
    records = []
    for task in tasks:
        for index, seconds in enumerate([3e-3, 1e-3, 2e-3]):
            inp = autotvm.MeasureInput(task.target, task, task.config_space.get(index))
            records.append((inp, MeasureResult((seconds,), 0, 0.1, 1.0)))
    assert len(records) == 6
    return module, params, records


@pytest.mark.many_cases
@pytest.mark.parametrize("kind", [DPTuner, PBQPTuner])
@pytest.mark.parametrize("as_log", [True, False])
def test_the_best_records_of_layers_are_written_and_replayed(network, kind, as_log, tmp_path):
    module, params, records = network
    log, best = tmp_path / "kernels.log", tmp_path / "graph.log"
    autotvm.callback.log_to_file(str(log))(None, *zip(*records, strict=True))
    best.write_text("what was there before\n")
    given = str(log) if as_log else records
    targets = [relay.op.get("nn.conv2d")]
    executor = kind(module["main"], {"data": (1, 8, 10, 10)}, given, targets, "llvm")
    executor.benchmark_layout_transform(min_exec_num=2000)
    executor.run()
    executor.write_opt_sch2record_file(str(best))
    kept = list(autotvm.record.load_from_file(str(best)))
    assert [result.costs for _, result in kept] == [(1e-3,)] * 2
    assert [str(i.config) for i, _ in executor.get_optimal_records()] == [
        str(i.config) for i, _ in kept
    ]
    with autotvm.apply_graph_best(str(best)), tvm.transform.PassContext(opt_level=3):
        library = relay.build(module, target="llvm", params=drawn(params))
    run = graph_executor.GraphModule(library["default"](tvm.cpu()))
    x = np.random.default_rng(0).normal(size=(1, 8, 10, 10)).astype("float32")
    run.set_input("data", x)
    run.run()
    wanted = module["main"].graph.bind(drawn(params)).run(x)[0]
    np.testing.assert_allclose(run.get_output(0).numpy(), wanted, rtol=1e-3, atol=1e-4)


def test_what_is_no_network_or_no_record_is_refused(network):
    module, *_ = network
    with pytest.raises(GraphError, match="expected a module or function of relay"):
        DPTuner(3, {}, [])
    with pytest.raises(TunerError, match="records must be a log, or a list of trials, got 3"):
        DPTuner(module["main"], {}, 3)
    with pytest.raises(TunerError, match="each a MeasureInput and a MeasureResult, got 7"):
        DPTuner(module["main"], {}, [7])
    assert autotvm.task.ApplyGraphBest is autotvm.task.ApplyHistoryBest


def test_no_log_is_lost_where_the_best_records_are_written(network, tmp_path):
    module, _, records = network
    log, best = tmp_path / "kernels.log", tmp_path / "graph.log"
    autotvm.callback.log_to_file(str(log))(None, *zip(*records, strict=True))
    before = log.read_text()
    with pytest.raises(TunerError, match="another file than that of the records"):
        DPTuner(module["main"], {}, log).write_opt_sch2record_file(log)
    assert log.read_text() == before
    best.write_text(before)
    with pytest.raises(LogMissingError):
        DPTuner(module["main"], {}, tmp_path / "none.log").write_opt_sch2record_file(best)
    assert best.read_text() == before
