"""Devices, arrays on them, built functions, and how they are timed."""

import functools
import math
import tempfile

import numpy as np

import autotune
from autotune import runtime
from tests.badcalls import pools as bad
from tests.badcalls.api import Api
from tests.badcalls.defining import copy_kernel

FLAG = ["yes", 5, None, []]
SECONDS = [*bad.NO_NUMBER, math.nan, 0, -1, None, True]
NO_ARRAY = [5, None, "abc", [1.0], bad.Odd(), np.zeros(7, "f4"), np.zeros(8), np.zeros((2, 4))]
NO_TIMES = [5, None, "abc", {}, [], [bad.Odd()], ["a"], [None], [-1.0], [math.nan], bad.Odd()]
ARGUMENTS = [5, None, "abc", {}, [5], [None], bad.Odd()]


@functools.cache
def module():
    return autotune.build(copy_kernel(), target="c")


def allocated(**given):
    return module().executable.allocate(**given)


def evaluated(func_name="copy", number=1, **given):
    """Time the kernel, so that what is found out only then counts too."""
    timed = module().time_evaluator(func_name, number=number, **given)
    return timed(runtime.empty((8,)), runtime.empty((8,)))


def timed(buffers=allocated, options=None):
    return module().executable.time(allocated() if buffers is allocated else buffers, options)


def sampler():
    return module().executable.sampler(allocated(), runtime.TimeOptions())


@functools.cache
def compiled():
    folder, target = tempfile.mkdtemp(), autotune.Target("c")
    return runtime.compile_kernel(module().kernel, target, out_dir=folder).artifact


ON_DEVICES = [
    Api(
        "copyto",
        lambda target: runtime.empty((2,)).copyto(target),
        lambda: {"target": autotune.cpu()},
        {"target": [5, None, "cpu", [], np.zeros(2), bad.Odd()]},
    ),
    Api(
        "fill_bytes",
        lambda byte: runtime.empty((2,)).fill_bytes(byte),
        lambda: {"byte": 255},
        {"byte": [*bad.WHOLE, -1, 256]},
    ),
    Api(
        "Device",
        runtime.Device,
        lambda: {"kind": "cpu"},
        {"kind": bad.CHOICE, "index": [*bad.WHOLE, -1]},
    ),
    Api(
        "device(name)",
        autotune.device,
        lambda: {"kind": "cuda:1"},
        {"kind": ["cpu:x", "cuda:", "cuda:-1", "cuda:1.5", "cuda:\u00b2"]},
    ),
    Api("gpu", autotune.gpu, dict, {"index": [*bad.WHOLE, -1]}),
    Api(
        "random_inputs",
        runtime.random_inputs,
        lambda: {"args": module().kernel.args},
        {"args": ARGUMENTS, "seed": [*bad.WHOLE, -1]},
    ),
    Api(
        "Buffers",
        runtime.Buffers,
        lambda: {"args": module().kernel.args, "device": autotune.cpu()},
        {"args": ARGUMENTS, "device": [5, None, "cpu", [], bad.Odd()]},
    ),
]
FUNCTIONS = [
    Api(
        "Module()",
        lambda a, b: module()(a, b),
        lambda: {"a": np.zeros(8, "f4"), "b": np.zeros(8, "f4")},
        {"a": NO_ARRAY, "b": NO_ARRAY},
    ),
    Api(
        "Module[name]",
        lambda name: module()[name],
        lambda: {"name": "copy"},
        {"name": [5, None, "", "cpoy", [], bad.Odd()]},
    ),
    Api(
        "Module.get_source",
        lambda fmt: module().get_source(fmt),
        lambda: {"fmt": "c"},
        {"fmt": [5, None, "ptx", [], bad.Odd()]},
    ),
    Api(
        "Module.export_library",
        lambda path: module().export_library(path),
        lambda: {"path": tempfile.mktemp()},
        {"path": [*bad.PATH, ""]},
    ),
    Api(
        "load",
        runtime.load,
        lambda: {"artifact": compiled(), "kernel": module().kernel, "where": "cpu"},
        {
            "artifact": [*bad.PATH, ""],
            "kernel": bad.OBJECT,
            "where": [5, None, "", "gpu3", [], bad.Odd(), "cpu:x"],
        },
        {"where": "device"},
    ),
    Api(
        "compile_kernel",
        runtime.compile_kernel,
        lambda: {
            "kernel": module().kernel,
            "target": autotune.Target("c"),
            "out_dir": tempfile.mkdtemp(),
        },
        {
            "kernel": bad.OBJECT,
            "target": bad.OBJECT,
            "out_dir": [*bad.PATH, ""],
            "timeout_s": SECONDS,
            "compiler": bad.CHOICE,
        },
    ),
]
TIMES = [
    Api(
        "time_evaluator",
        evaluated,
        dict,
        {
            "func_name": [5, None, "", "cpoy", []],
            "dev": [5, "cpu", [], autotune.cuda(0), bad.Odd()],
            "number": bad.COUNT,
            "repeat": bad.COUNT,
            "min_repeat_ms": bad.NOT_NEGATIVE,
            "limit_zero_time_iterations": [*bad.WHOLE, -1],
            "cooldown_interval_ms": bad.NOT_NEGATIVE,
            "repeats_to_cooldown": bad.COUNT,
            "cache_flush_bytes": [*bad.WHOLE, -1],
            "f_preproc": [choice for choice in bad.CHOICE if choice != ""],
        },
    ),
    Api(
        "TimeOptions",
        runtime.TimeOptions,
        dict,
        {
            "number": bad.COUNT,
            "repeat": bad.COUNT,
            "min_repeat_ms": bad.NOT_NEGATIVE,
            "cooldown_interval_s": bad.NOT_NEGATIVE,
            "repeats_to_cooldown": bad.COUNT,
            "flush_cache": FLAG,
            "use_graph": ["yes", 5, []],
            "input_sets": [c for c in bad.COUNT if c is not None],
            "give_up_after_s": [c for c in bad.NOT_NEGATIVE if c is not None],
            "observe": FLAG,
        },
    ),
    Api(
        "summarize",
        runtime.summarize,
        lambda: {"samples_s": [1.0, 2.0], "number": 1},
        {"samples_s": NO_TIMES, "number": bad.COUNT, "clocks": [5, None, "ab", {}, [None]]},
    ),
    Api(
        "take_timing",
        runtime.take_timing,
        lambda: {"sampler": sampler(), "options": runtime.TimeOptions(number=1, repeat=1)},
        {"sampler": bad.OBJECT, "options": bad.OBJECT},
    ),
    Api(
        "Executable.allocate",
        allocated,
        dict,
        {"inputs": [5, "abc", {}, [], [5], ["a"], bad.Odd()], "seed": [*bad.WHOLE, -1]},
        {"inputs": "input"},
    ),
    Api(
        "Executable.time",
        timed,
        dict,
        {"buffers": bad.OBJECT, "options": [o for o in bad.OBJECT if o is not None]},
    ),
]
MODULES = [*ON_DEVICES, *FUNCTIONS, *TIMES]
