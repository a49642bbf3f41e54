"""Measuring, tuning, callbacks, records and arrays."""

import io
import math
import tempfile
from pathlib import Path

import numpy as np

import autotune
from autotune import callback, record, runtime
from autotune.measure import TimingPolicy, VerifyPolicy
from autotune.tuner import AutoTuner, GATuner, GridSearchTuner, RandomTuner, XGBTuner
from tests.badcalls import pools as bad
from tests.badcalls.api import Api
from tests.badcalls.defining import copy_kernel, copy_task
from tests.tuner.doubles import loop_task, option

SECONDS = [*bad.NO_NUMBER, math.nan, 0, -1, None, True]
FLAG = ["yes", 5, None, []]


def tuned(**given):
    made = RandomTuner(loop_task(), seed=0)
    made.tune(**{"n_trial": 2, "measure_option": option(), "finalists": 0, **given})


MEASURING = [
    Api(
        "LocalBuilder",
        autotune.LocalBuilder,
        lambda: {"timeout": 10},
        {
            "timeout": SECONDS,
            "n_parallel": [c for c in bad.COUNT if c is not None],
            "build_kwargs": [5, "abc", [1]],
            "build_func": bad.CHOICE,
            "compiler": bad.CHOICE,
            "cache": FLAG,
            "tmp_dir": [5, [], bad.Odd()],
        },
    ),
    Api(
        "LocalRunner",
        autotune.LocalRunner,
        lambda: {"timeout": 10},
        {
            "timeout": SECONDS,
            "number": [c for c in bad.COUNT if c is not None],
            "repeat": [c for c in bad.COUNT if c is not None],
            "min_repeat_ms": [c for c in bad.NOT_NEGATIVE if c is not None],
            "cooldown_interval": bad.NOT_NEGATIVE,
            "enable_cpu_cache_flush": FLAG,
            "module_loader": [5, "abc", len],
            "device": [*bad.WHOLE, -1],
            "devices": [5, "01", [], [0, 0]],
            "use_graph": ["yes", 5, []],
            "flush_l2": FLAG,
            "verify": ["sometimes", 5, -0.5, 1.5, math.nan, [], bad.Odd(), None],
            "ref_input": [5, "abc", {}],
            "seed": [*bad.WHOLE, -1],
            "memory_bytes": [c for c in [*bad.WHOLE, -1] if c is not None],
            "timing": [5, "abc", {}, []],
        },
    ),
    Api(
        "measure_option",
        autotune.measure_option,
        lambda: {"builder": "local", "runner": "local"},
        {
            "builder": [5, None, "remote", [], autotune.LocalBuilder, bad.Odd()],
            "runner": [5, None, "remote", [], autotune.LocalRunner, bad.Odd()],
        },
    ),
    Api(
        "TimingPolicy",
        TimingPolicy,
        dict,
        {"number": bad.COUNT, "repeat": bad.COUNT, "min_repeat_ms": bad.NOT_NEGATIVE},
    ),
    Api(
        "VerifyPolicy",
        VerifyPolicy,
        dict,
        {"sums": ["float31", 5], "rtol": [-1, "abc", math.nan], "atol": [-1, "abc", math.nan]},
    ),
]
TUNING = [
    *[
        Api(
            kind.__name__,
            kind,
            lambda: {"task": loop_task()},
            {
                "task": ["badcalls.copy", 5, None, [], {}, bad.Odd(), copy_task],
                "seed": ["abc", -1, 1.5, [], {}, bad.Odd(), math.nan],
            },
        )
        for kind in (AutoTuner, GATuner, GridSearchTuner, RandomTuner, XGBTuner)
    ],
    Api(
        "GATuner",
        GATuner,
        lambda: {"task": loop_task()},
        {
            "pop_size": bad.COUNT,
            "elite_num": [*bad.WHOLE, -1],
            "mutation_prob": [*bad.NUMBER, -0.1, 1.1],
        },
    ),
    Api(
        "XGBTuner",
        XGBTuner,
        lambda: {"task": loop_task()},
        {
            "plan_size": bad.COUNT,
            "feature_type": bad.CHOICE,
            "loss_type": bad.CHOICE,
            "num_threads": [c for c in bad.COUNT if c is not None],
            "optimizer": bad.CHOICE,
            "diversity_filter_ratio": [0.5, *[c for c in bad.POSITIVE if c is not None]],
            "log_interval": bad.COUNT,
        },
    ),
    Api(
        "GridSearchTuner",
        GridSearchTuner,
        lambda: {"task": loop_task()},
        {"range_idx": [5, "ab", (1,), (-1, 2), (0, 10**9), (3, 2), (0.5, 2), {}]},
    ),
    Api(
        "tune",
        tuned,
        dict,
        {
            "n_trial": bad.COUNT,
            "measure_option": [5, "local", [], {}, {"builder": 5}, bad.Odd()],
            "early_stopping": [c for c in [*bad.WHOLE, -1] if c is not None],
            "callbacks": [5, None, "abc", [5], [None], len, {1: 2}],
            "si_prefix": ["X", 5, None, "GG", []],
            "reproducible": FLAG,
            "resume": [5, [1, 2], [None], [(1, 2)], [[]], len, bad.Odd()],
            "retry": FLAG,
            "stop_at": ["abc", 0, -1, 1.5, math.nan, [], True],
            "timeout_s": ["abc", -1, math.nan, [], True],
            "fail_fast": ["abc", -1, 1.5, [], math.nan, True],
            "finalists": [*bad.WHOLE, -1],
        },
    ),
    Api(
        "set_error_threshold",
        lambda threshold: RandomTuner(loop_task()).set_error_threshold(threshold),
        lambda: {"threshold": 5},
        {"threshold": bad.COUNT},
    ),
    Api(
        "log_to_file",
        callback.log_to_file,
        lambda: {"file_out": io.StringIO()},
        {"file_out": [*bad.PATH, "", b"x"], "protocol": ["pickle", 5, None, ""]},
        {"file_out": "log"},
    ),
    Api(
        "log_to_database",
        callback.log_to_database,
        lambda: {"db": record.DummyDatabase()},
        {"db": [*bad.OBJECT, record.DummyDatabase]},
    ),
    Api(
        "progress_bar",
        callback.progress_bar,
        lambda: {"total": 5, "stream": io.StringIO()},
        {
            "total": bad.COUNT,
            "prefix": [5, None, []],
            "si_prefix": ["X", 5, None, []],
            "stream": [5, "abc", []],
        },
    ),
]


def pair():
    task = loop_task()
    inp = autotune.MeasureInput(task.target, task, task.config_space.get(0))
    return inp, autotune.MeasureResult((1.0,), 0, 0.1, 1.0)


def exported():
    path = Path(tempfile.mkdtemp(), "copy.tar")
    autotune.build(copy_kernel(), target="c").export_library(path)
    return path


RECORDS = [
    Api(
        "apply_history_best",
        record.apply_history_best,
        lambda: {"records": [pair()]},
        {"records": [5, [5], [(1, 2)], [None], len, bad.Odd(), 1.5]},
    ),
    Api(
        "load_from_file",
        lambda filepath: list(record.load_from_file(filepath)),
        lambda: {"filepath": "/dev/null"},
        {"filepath": bad.PATH},
        {"filepath": ""},
    ),
    Api(
        "encode",
        lambda inp, result, protocol: record.encode(inp, result, protocol),
        lambda: {"inp": pair()[0], "result": pair()[1], "protocol": "json"},
        {"inp": bad.OBJECT, "result": bad.OBJECT, "protocol": []},
        {"protocol": "json", "inp": "", "result": ""},
    ),
    Api(
        "decode",
        record.decode,
        lambda: {"row": record.encode(*pair())},
        {"row": [5, None, [], b"x", bad.Odd()]},
        {"row": ""},
    ),
    Api(
        "pick_best",
        record.pick_best,
        lambda: {"in_file": "/dev/null", "out_file": tempfile.mktemp()},
        {"in_file": bad.PATH, "out_file": bad.PATH},
        {"in_file": "", "out_file": ""},
    ),
    Api(
        "load_module",
        autotune.load_module,
        lambda: {"path": exported()},
        {"path": [*bad.PATH, "", "no_such.tar", "/", __file__]},
    ),
]
ARRAYS = [
    Api(
        "runtime.array",
        runtime.array,
        lambda: {"source": [1.0, 2.0]},
        {
            "source": [None, "abc", bad.Odd(), {}, len, [[1], [1, 2]], [None], 1j],
            "device": [5, "cpu", [], bad.Odd()],
        },
        {"source": "source"},
    ),
    Api(
        "runtime.empty",
        runtime.empty,
        lambda: {"shape": (2, 3)},
        {
            "shape": [None, "abc", -1, (2, -1), (1.5,), ("a",), bad.Odd(), 1.5, {}],
            "dtype": [d for d in bad.DTYPE if d not in ("int", None)],
            "device": [5, "cpu", [], bad.Odd()],
        },
    ),
    Api(
        "copyfrom",
        lambda source: runtime.empty((2,)).copyfrom(source),
        lambda: {"source": np.zeros(2)},
        {"source": [None, "abc", bad.Odd(), [1], [[1, 2]], ["a", "b"], len]},
        {"source": "copyfrom"},
    ),
    Api(
        "from_dlpack",
        runtime.from_dlpack,
        lambda: {"source": np.zeros(2)},
        {"source": bad.OBJECT},
        {"source": "dlpack"},
    ),
    Api(
        "device",
        autotune.device,
        lambda: {"kind": "cpu", "index": 0},
        {"kind": [5, None, "", "gpu3", [], bad.Odd()], "index": [*bad.WHOLE, -1]},
        {"kind": "device"},
    ),
    Api("cpu", autotune.cpu, dict, {"index": [*bad.WHOLE, -1]}),
    Api("cuda", autotune.cuda, dict, {"index": [*bad.WHOLE, -1]}),
]
