"""TVM's page of tuning a network: killed in the midst of it, gone on with, built and run."""

import time
from pathlib import Path

from autotune.auto_scheduler import RecordReader
from tests.forked import Script

# The calls of the page in its order, on a network and a number of trials that are small.
PAGE = """
import sys

import numpy as np

from autotune import tvm
from autotune.tvm import relay, auto_scheduler
import autotune.tvm.relay.testing
from autotune.tvm.contrib import graph_executor

from autotune.auto_scheduler import SketchPolicy  # searches of a moment

SketchPolicy.DEFAULT_PARAMS = {
    **SketchPolicy.DEFAULT_PARAMS,
    "evolutionary_search_population": 64,
    "evolutionary_search_num_iters": 1,
}
target = tvm.target.Target(sys.argv[1])
log_file = sys.argv[2]
trials = int(sys.argv[3])
resumed = len(sys.argv) > 4

mod, params = relay.testing.mlp.get_workload(
    batch_size=1, num_classes=10, image_shape=(1, 4, 4), dtype="float32"
)
tasks, task_weights = auto_scheduler.extract_tasks(mod["main"], params, target)
for idx, task in enumerate(tasks):
    print("========== Task %d  (workload key: %s) ==========" % (idx, task.workload_key))
    print(task.compute_dag)


def run_tuning():
    measure_ctx = auto_scheduler.LocalRPCMeasureContext(repeat=1, min_repeat_ms=1, timeout=60)
    if resumed:
        tuner = auto_scheduler.TaskScheduler(
            tasks, task_weights, load_log_file=log_file, callbacks=[]
        )
    else:
        tuner = auto_scheduler.TaskScheduler(tasks, task_weights, callbacks=[])
    tune_option = auto_scheduler.TuningOptions(
        num_measure_trials=trials,
        num_measures_per_round=1,
        runner=measure_ctx.runner,
        measure_callbacks=[auto_scheduler.RecordToFile(log_file)],
    )
    tuner.tune(tune_option)


run_tuning()

with auto_scheduler.ApplyHistoryBest(log_file):
    with tvm.transform.PassContext(
        opt_level=3, config={"relay.backend.use_auto_scheduler": True}
    ):
        lib = relay.build(mod, target=target, params=params)

dev = tvm.device(str(target), 0)
module = graph_executor.GraphModule(lib["default"](dev))
data_tvm = tvm.nd.array((np.random.uniform(size=(1, 1, 4, 4))).astype("float32"))
module.set_input("data", data_tvm)
module.run()
want = mod["main"].graph.bind(params).run(data_tvm.numpy())[0]
print("error", np.abs(module.get_output(0).numpy() - want).max())
print(module.benchmark(dev, repeat=3, number=1))
"""


def rows(log):
    return sum(1 for _ in RecordReader(log)) if Path(log).exists() else 0


def is_right(printed):
    """Returns whether all tasks were printed, the answer is right, and times were printed."""
    (error,) = [line.split()[1] for line in printed.splitlines() if line.startswith("error")]
    timed = "Execution time summary:" in printed
    return printed.count("========== Task") == 4 and float(error) < 1e-5 and timed


def test_the_page_runs_whole_on_the_emulator(tmp_path):
    with Script(PAGE, "cuda -emulate", tmp_path / "net.json", 4) as script:
        assert is_right(script.stdout.read())
    assert rows(tmp_path / "net.json") == 4


def test_the_page_goes_on_after_a_kill_in_the_midst_of_its_tuning(tmp_path):
    log = tmp_path / "net.json"
    with Script(PAGE, "llvm", log, 1000) as first:
        deadline = time.monotonic() + 60
        while rows(log) < 4 and first.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        first.kill()
    before = rows(log)
    assert 4 <= before < 1000
    with Script(PAGE, "llvm", log, before + 2, "resumed") as second:
        printed = second.stdout.read()
        assert second.wait(120) == 0
    assert rows(log) == before + 2
    keys = [(inp.task.workload_key, inp.key) for inp, _ in RecordReader(log)]
    assert len(set(keys)) == len(keys), "what the log held is not measured again"
    assert is_right(printed)
