"""Hostile logs of the auto-scheduler through all that reads them: no bare exception, no code.

A log is a text that anybody may have written: each line is passed over and reported, or refused
in words when it is used, in a moment and in a room that do not depend on what it asks for.
"""

import json
import logging

import pytest

from autotune import te
from autotune.auto_scheduler import (
    ComputeDAG,
    PreloadMeasuredStates,
    RandomModel,
    SearchTask,
    SketchPolicy,
    XGBModel,
    register_workload,
    workload_registry,
)
from autotune.auto_scheduler.measure_record import RecordReader, distill_record_file
from autotune.auto_scheduler.records.best import load_best_record
from autotune.auto_scheduler.records.codec import NOTE, decode
from autotune.auto_scheduler.search_task import recover_measure_input
from autotune.auto_scheduler.states.recorded_state import RecordedState
from autotune.auto_scheduler.tune_task import cuda_text
from autotune.codegen import kernel_of_schedule
from autotune.errors import AutotuneError
from autotune.target import Target
from tests.auto_scheduler.graphs import matmul

KEY = json.dumps(["matmul", 64, 64, 64])
HARDWARE = [-1, 16, 64, 49152, 65536, 1024, 8, 32]
TWICE = [["SP", 2, 0, 64, [1], 1], ["FU", 2, [0, 1]]]
LATER = [["SP", 2, 0, 64, [4], 1]]
CODE = 'shared"]; __import__("os").system("false") #'
STEPS = [
    [["SP", 2, 0, 64, [10**9], 1]],
    [["SP", 2, 0, 64, [10**400], 1]],
    [["SP", 2, 0, 64, [2**40] * 3, 0]],
    [["SP", 2, 0, 64, [1] * 3000, 1]],
    [["SP", 2, 0, 64, [1] * 90, 1]],
    [["SP", 10**30, 0, 64, [4], 1]],
    [["SP", 2, -(10**30), 64, [4], 1]],
    [*LATER, ["FFSP", 2, 1, [0] * 1000, 0, 1]],
    [["FFSP", 2, 0, [10**9], 0, 1]],
    [["FSP", 2, 0, 10**9, 1]],
    TWICE * 8,
    TWICE * 400,
    [["FU", 2, []]] * 3000,
    [["FU", 2, []]] * 300,
    [["CR", 2]] * 2000,
    [["CHR", 0, "shared", [2]]] * 60,
    [["CHR", 0, "shared", [2]]] * 100,
    [["CHR", 0, CODE, [2]]],
    [["CHR", 0, "shared\n", [2]]],
    [["CHW", 2, 'local"; //']],
    [["CHR", 0, "x" * 10**6, [2]]],
    [["PR", 2, 0, "auto_unroll_max_step$" + "9" * 5000]],
    [["PR", 2, 0, "auto_unroll_max_step$1000000000"]],
    [["PR", 2, 0, "auto_unroll_max_step$999999999"]],
    [["PR", 2, 0, 'x"); import os; #$1']],
    [["SA", 2, 0, 10**400, 10**400]],
    [["CHR", 0, "shared", [2]], ["SA", 1, 0, 10**15, 1]],
    [["AN", 2, 0, 1], ["AN", 2, 1, 1], ["AN", 2, 2, 1]],
    [["AN", 2, 0, 11]],
    [["RF", 2, 2, 99]],
    [["RE", 2, [0, 0, 10**9]]],
]
DEEP = "[" * 50000 + "]" * 50000
KEYS = [
    DEEP, f'["matmul",{DEEP}]', '["matmul",' + "9" * 5000 + ",1,1]", '["matmul",1e999,NaN,1]',
    '["matmul"]', '["matmul",["TENSOR",5,5],1,1]', '["matmul",["TENSOR",[1],"f()"],1,1]',
    '["matmul",' + "1" * 310 + ",64,64]", '["matmul",64,64,64,{"a":1}]',
    '["matmul",{"a":[1]},1,1]',
    '["matmul",-1,0,"x"]', '["matmul",1,1,"system(0)"]', '["os.system","false"]', "{}", "[]",
    "[5]", '[["matmul"]]', "\ud800",
]  # fmt: skip
OTHERS = [
    {"target": "cuda -arch=sm_99999999999"}, {"target": '{"kind":"cuda","host":' + DEEP + "}"},
    {"target": "c" * 10**6}, {"hardware": [10**400] * 8}, {"hardware": [-(10**30)] * 8},
    {"host": "cuda; rm"}, {"names": ["\x1b[2J"]}, {"layout": 10**400},
    {"r": [[10**400], 0, 1, 2]},
    {"r": [[1e-3], 0, 1, 10**400]}, {"r": 5}, {"race": 5}, {"race": {"candidates": 5}},
    {"race": {"candidates": [5]}}, {"graph_hash": 5}, {"graph_hash": ["x"]},
    {"exact": [[1], 2, 3]},
]  # fmt: skip


def line(key=KEY, target="cuda", hardware=HARDWARE, host="", layout=0, names=(), steps=(), **more):
    task = [key, target, hardware, host, layout, list(names)]
    return json.dumps(
        {"i": [task, [[], list(steps)]], "r": [[1e-3], 0, 1, 2], "v": "v0.6", **more}
    )


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(workload_registry, "WORKLOAD_FUNC_REGISTRY", {})
    register_workload("matmul", f=matmul)


def in_words(function, *args):
    """Call a function that may refuse, but only in a message of ours."""
    found, said = None, ""
    try:
        found = function(*args)
    except AutotuneError as error:
        said = str(error)
    assert len(said) < 2000
    return found


@pytest.mark.many_cases
@pytest.mark.parametrize("steps", STEPS, ids=range(len(STEPS)))
def test_hostile_steps_are_refused_or_become_a_kernel(steps):
    found = in_words(decode, line(steps=steps))
    if found is None:
        return
    state = found[0].state
    dag = SearchTask(func="matmul", args=(64, 64, 64), target="c").compute_dag
    in_words(recover_measure_input, found[0], True)
    for mode in ("schedule", "python"):
        text = in_words(dag.print_python_code_from_state, state, mode)
        assert text is None or "import os" not in text

    def as_c():
        schedule, tensors = dag.apply_steps_from_state(state)
        return kernel_of_schedule(schedule, list(tensors), Target("c"), "f").source

    task = SearchTask(func="matmul", args=(64, 64, 64), target="cuda -arch=sm_90")
    for text in (in_words(as_c), in_words(cuda_text, task, found[0].config)):
        assert len(text or "") < 10**6


LINES = [
    *[line(key, "c") for key in KEYS],
    *[line(**{"target": "c", **each}) for each in OTHERS],
    f"{NOTE}{DEEP}\n{line(target='c')}",
    f"{NOTE}{'9' * 5000}\n{line(target='c')}",
    *[
        f"{NOTE}{json.dumps({'of': RecordedState(()).key, name: value})}\n{line(target='c')}"
        for name in ("graph_hash", "race", "exact", "error_msg", "kernel_hash", "resources")
        for value in (None, 5, 10**400, [], [5], {}, {"candidates": [5]}, "\x1b[2J")
    ],
]


def test_hostile_lines_go_through_all_readers(tmp_path, caplog):
    log = tmp_path / "log.json"
    task = SearchTask(func="matmul", args=(64, 64, 64), target="c")
    lines = [*LINES, *[f"# race {each}" for each in LINES if not each.startswith("#")]]

    def known():
        model = XGBModel()
        model.update_from_file(log)
        SketchPolicy(task, model, init_search_callbacks=[PreloadMeasuredStates(str(log))])

    for each in lines:
        log.write_text(each + "\n", "utf-8", "replace")
        for inp, _ in RecordReader(log, races=True):
            in_words(recover_measure_input, inp, True)
        in_words(load_best_record, log, KEY, None, True)
        in_words(task.apply_best, log, True)
        in_words(known)
    good = line(target="c", steps=[["AN", 2, 0, 3]])
    log.write_text("\n".join([*lines, good]) + "\n", "utf-8", "replace")
    caplog.clear()
    with caplog.at_level(logging.WARNING, "auto_scheduler"):
        assert good in [line(target="c", steps=i.state.to_json()) for i, _ in RecordReader(log)]
    assert "records could not be read" in caplog.text
    assert distill_record_file(log, tmp_path / "best.json") >= 1


def test_no_function_is_run_on_a_text_of_a_record_that_could_be_code():
    given = []
    register_workload("listening", f=given.append)
    found, _ = decode(line('["listening", "1; system(0)"]', "c"))
    with pytest.raises(AutotuneError, match="a text that could be code"):
        recover_measure_input(found)
    assert not given


@pytest.mark.parametrize("name", ['A"""\nimport nosuch\n"""', "a b", "1a", "A;x", "A\\", "class"])
def test_printed_python_runs_whatever_tensors_are_called(name):
    a = te.placeholder((8, 8), name=name)
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1, name=f"{name}2")
    dag = ComputeDAG([a, b])
    task = SearchTask(compute_dag=dag, target="c")
    (state, *_) = SketchPolicy(task, RandomModel(), seed=0).propose(1)
    space = {}
    exec(dag.print_python_code_from_state(state, "python"), space)
    schedule, _ = space["schedule"](dag.tensors)
    assert len(schedule.stages) == 2
