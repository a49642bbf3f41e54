"""The auto-scheduler: workloads, tasks, states, searches and records."""

import functools
import json
import math

from autotune import auto_scheduler as search
from autotune.auto_scheduler import measure_record as records
from autotune.auto_scheduler.measure_record import dump_record_to_string
from autotune.auto_scheduler.measuring.measure_input import MeasureInput
from autotune.measure.types import MeasureResult
from tests.auto_scheduler.graphs import matmul
from tests.badcalls import pools as bad
from tests.badcalls.api import Api

WHOLE = [1.5, "abc", [], {}, bad.Odd(), math.nan, math.inf]
COUNT = [*WHOLE, None, 0, -1]
TEXT = [5, None, [], {}, bad.Odd(), 1.5]
STATE = [5, None, "abc", [], bad.Odd()]
QUICK = {"evolutionary_search_population": 8, "evolutionary_search_num_iters": 1}
OK = MeasureResult((1.5e-5,), 0, 1.25, 1700000000.75)
LINE = json.dumps({"i": [["k", "c"], [[], []]], "r": [[1e-3], 0, 1, 2], "v": "v0.6"})


@functools.cache
def task():
    return search.SearchTask(compute_dag=search.ComputeDAG(matmul(16, 16, 16)), target="c")


def state():
    return task().compute_dag.get_init_state()


def policy():
    return search.SketchPolicy(task(), search.RandomModel(), params=QUICK, seed=0)


def nothing():
    return search.TuningOptions(0, verbose=0)


def on_product(name):
    """Return a primitive that takes the stage of the product, and its loops by number."""

    def call(**given):
        made = state()
        stage = made[2]
        for argument in ("iterator", "iters", "order"):
            which = given.get(argument)
            if isinstance(which, int) and argument == "iterator":
                given[argument] = stage.iters[which]
            elif isinstance(which, tuple) and argument != "iterator":
                given[argument] = [stage.iters[i] for i in which]
        return getattr(made, name)(2, **given)

    return call


def primitive(name, good, wrong):
    return Api(f"State.{name}", on_product(name), lambda: dict(good), wrong)


STATES = [
    primitive("split", {"iterator": 0, "lengths": [4]}, {"lengths": [5, None, "x", [0], ["x"]]}),
    primitive("fuse", {"iters": (0, 1)}, {"iters": [5, None, "x"]}),
    primitive("reorder", {"order": (2, 1, 0)}, {"order": [5, None, "x"]}),
    primitive("bind", {"iterator": 0, "thread_name": "blockIdx.x"}, {"thread_name": bad.CHOICE}),
    primitive("unroll", {"iterator": 0, "max_unroll": 64}, {"max_unroll": WHOLE}),
    primitive(
        "pragma", {"iterator": 0, "pragma_type": "auto_unroll_max_step$4"}, {"pragma_type": TEXT}
    ),
    primitive(
        "storage_align",
        {"iterator": 0, "factor": 4, "offset": 1},
        {"factor": COUNT, "offset": [*WHOLE, None, -1]},
    ),
    primitive("cache_write", {"scope_name": "local"}, {"scope_name": TEXT}),
    primitive(
        "rfactor", {"iterator": 2, "factor_iter_id": 0}, {"factor_iter_id": [*WHOLE, None, -1]}
    ),
    Api(
        "State.cache_read",
        lambda **given: state().cache_read(0, **given),
        lambda: {"scope_name": "shared", "reader_stages": [2]},
        {"scope_name": TEXT, "reader_stages": [5, None, "x"]},
    ),
    Api(
        "ComputeDAG.apply_steps_from_state",
        lambda **given: task().compute_dag.apply_steps_from_state(**given),
        lambda: {"state": state()},
        {"state": STATE},
    ),
    Api(
        "ComputeDAG.print_python_code_from_state",
        lambda **given: task().compute_dag.print_python_code_from_state(**given),
        lambda: {"state": state()},
        {"state": STATE},
    ),
    Api(
        "ComputeDAG.infer_bound_from_state",
        lambda **given: task().compute_dag.infer_bound_from_state(**given),
        lambda: {"state": state()},
        {"state": STATE},
    ),
]
TASKS = [
    Api(
        "auto_scheduler.SearchTask",
        search.SearchTask,
        lambda: {
            "compute_dag": task().compute_dag,
            "workload_key": '["k"]',
            "target": "c",
            "hardware_params": None,
            "layout_rewrite_option": 0,
            "task_inputs": None,
        },
        {
            "compute_dag": [5, "abc", [], bad.Odd()],
            "workload_key": [5, [], {}, bad.Odd(), ""],
            "hardware_params": [5, "abc", [], bad.Odd()],
            "layout_rewrite_option": [5, "abc", [], -1],
            "task_inputs": [5, "abc", bad.Odd()],
        },
    ),
    Api(
        "SearchTask.tune",
        lambda **given: task().tune(**given),
        lambda: {"tuning_options": nothing(), "search_policy": policy()},
        {"tuning_options": bad.OBJECT, "search_policy": [5, "abc", bad.Odd(), 1.5]},
    ),
    Api(
        "auto_scheduler.TaskScheduler",
        search.TaskScheduler,
        lambda: {
            "tasks": [task()],
            "task_weights": [1],
            "strategy": "gradient",
            "callbacks": [],
        },
        {
            "tasks": [5, None, "abc", [], [5], bad.Odd()],
            "task_weights": [5, "abc", ["x"], [None], [math.nan], [0], [1, 2], bad.Odd()],
            "strategy": bad.CHOICE,
            "callbacks": [5, "abc", bad.Odd()],
        },
        says={"task_weights": "weight", "tasks": "TaskScheduler"},
    ),
    Api(
        "TaskScheduler.tune",
        lambda **given: search.TaskScheduler([task()], callbacks=[]).tune(**given),
        lambda: {
            "tune_option": search.TuningOptions(1, verbose=0),
            "search_policy": "sketch.random",
            "search_policy_params": QUICK,
            "timeout_s": 0,
        },
        {
            "tune_option": bad.OBJECT,
            "search_policy": [5, None, "abc", bad.Odd(), []],
            "search_policy_params": [5, "abc", bad.Odd()],
            "timeout_s": ["abc", [], {}, bad.Odd(), math.nan],
        },
        says={"search_policy": "policy"},
    ),
]
SEARCHES = [
    Api(
        "auto_scheduler.SketchPolicy",
        search.SketchPolicy,
        lambda: {
            "task": task(),
            "program_cost_model": None,
            "params": QUICK,
            "seed": 0,
            "init_search_callbacks": [],
        },
        {
            "task": bad.OBJECT,
            "program_cost_model": [5, "abc", [], bad.Odd()],
            "params": [5, "abc", bad.Odd()],
            "seed": [*WHOLE, -1],
            "init_search_callbacks": [5, "abc", [5], bad.Odd()],
        },
    ),
    Api(
        "SketchPolicy.sample_initial_population",
        lambda **given: policy().sample_initial_population(**given),
        lambda: {"pop_size": 1},
        {"pop_size": [each for each in COUNT if each is not None]},
    ),
    Api(
        "SketchPolicy.evolutionary_search",
        lambda **given: policy().evolutionary_search(**given),
        lambda: {"init_populations": [], "out_size": 1},
        {"init_populations": [5, None, "abc", [5], bad.Odd()], "out_size": COUNT},
    ),
    Api(
        "RandomModel.predict",
        search.RandomModel().predict,
        lambda: {"task": task(), "states": [state()]},
        {"states": [5, None, "abc", [5], bad.Odd()]},
    ),
    Api(
        "auto_scheduler.PreloadMeasuredStates",
        search.PreloadMeasuredStates,
        lambda: {"filename": "no_such.json"},
        {"filename": bad.PATH},
    ),
]
RECORDS = [
    Api(
        "measure_record.save_records",
        lambda **given: records.save_records("/dev/null", **given),
        lambda: {"inputs": [], "results": []},
        {"inputs": [5, None, "abc", bad.Odd()], "results": [5, None, "abc", [OK], bad.Odd()]},
    ),
    Api(
        "measure_record.load_record_from_string",
        records.load_record_from_string,
        lambda: {"record": LINE},
        {"record": [*TEXT, ""]},
    ),
    Api(
        "measure_record.dump_record_to_string",
        dump_record_to_string,
        lambda: {"inp": MeasureInput(task(), state()), "result": OK},
        {"inp": bad.OBJECT, "result": bad.OBJECT},
    ),
    Api(
        "RecordReader.read_lines",
        lambda **given: search.RecordReader("/dev/null").read_lines(**given),
        lambda: {"max_lines": 1, "skip_lines": 0},
        {"max_lines": WHOLE, "skip_lines": [*WHOLE, None, -1]},
    ),
]
SCHEDULING = [*STATES, *TASKS, *SEARCHES, *RECORDS]
