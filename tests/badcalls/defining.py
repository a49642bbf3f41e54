"""Spaces, templates, tasks, kernels and targets."""

import itertools

import autotune
from autotune import kernel, target
from tests.badcalls import pools as bad
from tests.badcalls.api import Api

serial = itertools.count()


@autotune.template("badcalls.copy")
def copy(n):
    cfg = autotune.get_config()
    cfg.define_knob("k", [1, 2])
    cfg.define_split("t", n, num_outputs=2)
    return copy_kernel(n=n)


def copy_kernel(n=8, **changed):
    source = "void copy(const float* a, float* b) { for (int i = 0; i < N; ++i) b[i] = a[i]; }"
    told = {
        "name": "copy",
        "source": source,
        "args": [kernel.arg("a", (n,)), kernel.arg("b", (n,), role="out")],
        "defines": {"N": n},
        "reference": lambda a: a,
        **changed,
    }
    return kernel.SourceKernel(**told)


def copy_task():
    return autotune.create("badcalls.copy", (8,), "c")


def space():
    made = autotune.ConfigSpace()
    made.define_knob("taken", [3, 4])
    made.define_split("size", 8, num_outputs=2)
    return made


def on_space(method):
    return lambda **given: getattr(space(), method)(**given)


# None leaves a part of the launch out.
EXTENT = [-1, 1.5, "abc", {}, (1, -2), (1, 1, 1, 1), (), (2.5,), bad.Odd(), (True and -3,)]
AXIS = ["abc", None, {}, bad.Odd(), 0, -4, 1.5]
SPACES = [
    Api(
        "define_knob",
        on_space("define_knob"),
        lambda: {"name": "k", "candidate": [1, 2]},
        {
            "name": [*bad.NAME, "taken"],
            "candidate": ["abc", 5, None, [], {1: 2}, {1, 2}, bad.Odd(), [bad.Odd()], [len]],
        },
    ),
    Api(
        "define_split",
        on_space("define_split"),
        lambda: {"name": "s", "axis": 8, "num_outputs": 2},
        {
            "name": [*bad.NAME, "size"],
            "axis": AXIS,
            "num_outputs": bad.COUNT,
            "policy": bad.CHOICE,
            "max_factor": bad.COUNT[:-1],
            "filter": bad.FUNCTION[:1] + bad.FUNCTION[2:],
        },
    ),
    Api(
        "define_split(policy='candidate')",
        on_space("define_split"),
        lambda: {
            "name": "s",
            "axis": 8,
            "num_outputs": 2,
            "policy": "candidate",
            "candidate": [[4, 2]],
        },
        {
            "candidate": [
                5,
                "abc",
                None,
                [],
                {},
                [5],
                [[1]],
                [[1, "a"]],
                [[1.5, 2]],
                [[0, 1]],
                [[-2, 4]],
            ],
        },
    ),
    Api(
        "define_reorder",
        on_space("define_reorder"),
        lambda: {"name": "r", "axes": [0, 1], "policy": "all"},
        {"name": [*bad.NAME, "taken"], "axes": bad.LIST, "policy": bad.CHOICE},
    ),
    Api(
        "define_reorder(policy='interval_all')",
        on_space("define_reorder"),
        lambda: {"name": "r", "axes": [0, 1, 2], "policy": "interval_all", "interval": (0, 2)},
        {"interval": [5, None, "ab", (1,), (0, 9), (-1, 2), (2, 1), (0.5, 2), bad.Odd()]},
    ),
    Api(
        "define_reorder(policy='candidate')",
        on_space("define_reorder"),
        lambda: {"name": "r", "axes": [0, 1], "policy": "candidate", "candidate": [[1, 0]]},
        {"candidate": [5, None, [], [5], [[0, 7]], [[0, 0]], bad.Odd()]},
    ),
    Api(
        "define_annotate",
        on_space("define_annotate"),
        lambda: {"name": "a", "axes": [0, 1], "policy": "try_unroll"},
        {
            "name": [*bad.NAME, "taken"],
            "axes": bad.LIST,
            "policy": bad.CHOICE,
        },
    ),
    Api(
        "define_annotate(policy='locate_cache')",
        on_space("define_annotate"),
        lambda: {"name": "a", "axes": [0, 1], "policy": "locate_cache", "num_anchor": 1},
        {"num_anchor": bad.COUNT},
    ),
    Api(
        "multi_filter",
        lambda filter: (lambda s: (s.multi_filter(filter), len(s)))(space()),
        lambda: {"filter": lambda c: c["taken"].val > 1},
        {"filter": bad.FUNCTION},
    ),
    Api("add_flop", on_space("add_flop"), lambda: {"flop": 5}, {"flop": bad.NOT_NEGATIVE}),
    Api("add_bytes", on_space("add_bytes"), lambda: {"count": 5}, {"count": bad.NOT_NEGATIVE}),
    Api("raise_error", on_space("raise_error"), lambda: {"msg": "no"}, {"msg": bad.NAME}),
    Api(
        "fallback_with_reference_log",
        lambda ref_log: autotune.task.FallbackConfigEntity().fallback_with_reference_log(ref_log),
        lambda: {"ref_log": []},
        {"ref_log": [5, "abc", None, [5], [None], [()], [(5, 6)], [("a", "b")], bad.Odd()]},
    ),
    *(
        Api(
            f"{type(context).__name__}.update",
            context.update,
            lambda: {"target": "c", "workload": ("t", 1), "cfg": space().get(0)},
            {"cfg": [5, "abc", None, [], {}, bad.Odd(), len]},
        )
        for context in (
            autotune.task.FallbackContext(),
            autotune.task.ApplyConfig(autotune.task.FallbackConfigEntity()),
            autotune.record.ApplyHistoryBest([]),
        )
    ),
    Api("space.get", on_space("get"), lambda: {"index": 1}, {"index": bad.INDEX}),
    Api(
        "space.get_rand_index",
        on_space("get_rand_index"),
        lambda: {"start": 0, "end": 4},
        {"start": [-1, "a", 1.5, 99], "end": [-1, "a", 1.5, 99]},
    ),
    Api(
        "space.sample_ints", on_space("sample_ints"), lambda: {"m": 2}, {"m": [*bad.WHOLE, -1, 99]}
    ),
    Api(
        "space[name]",
        lambda name: space()[name],
        lambda: {"name": "taken"},
        {"name": ["takn", "", 5, None, bad.Odd()]},
        {"name": "knob"},
    ),
]
TASKS = [
    Api(
        "template",
        lambda task_name, func: autotune.template(task_name, func),
        lambda: {"task_name": f"badcalls.{next(serial)}", "func": lambda n: None},
        {"task_name": [5, 1.5, [], None, b"x", "", "badcalls.copy"], "func": [5, "abc", []]},
        {"task_name": "task"},
    ),
    Api(
        "register_topi_compute",
        autotune.register_topi_compute,
        lambda: {"task_name": f"badcalls.{next(serial)}", "func": lambda cfg: None},
        {"task_name": [5, None, "", []], "func": [5, "abc", []]},
    ),
    Api(
        "create",
        autotune.create,
        lambda: {"task_name": "badcalls.copy", "args": (8,), "target": "c"},
        {
            "task_name": [5, None, "", "badcalls.cop", [], len, bad.Odd()],
            "args": [5, None, "abc", (1, 2), (), {"n": 8}, (bad.Odd(),)],
            "target": [t for t in bad.TARGET if t is not None],
            "target_host": [5, "gpu3", [], bad.Odd()],
        },
        {"task_name": "task", "args": "ar", "target_host": "target"},
    ),
    Api(
        "task.instantiate",
        lambda config: copy_task().instantiate(config),
        lambda: {"config": copy_task().config_space.get(0)},
        {"config": bad.OBJECT},
        {"config": "configuration"},
    ),
    Api(
        "ApplyFixedConfig",
        lambda tasks, schedule_names: autotune.ApplyFixedConfig(tasks, schedule_names),
        lambda: {"tasks": [copy_task()], "schedule_names": "badcalls.copy"},
        {"tasks": [5, "abc", None, [5]], "schedule_names": [5, None, [5]]},
    ),
]
KERNELS = [
    Api(
        "arg",
        kernel.arg,
        lambda: {"name": "a", "shape": (4,), "dtype": "float32", "role": "in"},
        {
            "name": bad.NAME,
            "shape": [*bad.SHAPE[3:], (0,)],
            "dtype": bad.DTYPE,
            "role": bad.CHOICE,
        },
    ),
    Api(
        "workspace",
        kernel.workspace,
        lambda: {"name": "w", "shape": (4,)},
        {
            "name": bad.NAME,
            "shape": [*bad.SHAPE[3:], (0,)],
            "dtype": bad.DTYPE,
            "zero": ["yes", None, 5],
        },
    ),
    Api(
        "call",
        kernel.call,
        lambda: {"entry": "f", "args": ["a"], "grid": 2, "block": 32, "shared_bytes": 0},
        {
            "entry": bad.NAME,
            "args": [*bad.LIST, [5]],
            "grid": EXTENT,
            "block": EXTENT,
            "shared_bytes": [*bad.WHOLE, -1],
        },
    ),
    Api(
        "SourceKernel",
        lambda **given: copy_kernel(**given).kernel("c"),
        dict,
        {
            "name": bad.NAME,
            "source": [5, None, [], bad.Odd(), "no_such_file.cu"],
            "args": [*bad.LIST, [], [5], [kernel.arg("a", (4,))], "ab"],
            "defines": [
                5,
                "abc",
                [("N", 8)],
                {5: 1},
                {"not an identifier": 1},
                {"N": None},
                {"N": []},
                {"N": "1\n#define M 2"},
                {"N": bad.Odd()},
            ],
            "grid": [0, (1, 0), *EXTENT],
            "block": [0, (1, 0), *EXTENT],
            "shared_bytes": [*bad.WHOLE, -1],
            "reference": [5, "abc", [], bad.Odd()],
            "calls": [5, [5], "abc", ["copy"]],
            "workspace": [5, [5], "abc"],
            "flags": [5, "-O3", [5], [None], None],
            "language": ["cudo", 5, "C", "cuda"],
        },
    ),
    Api(
        "Target",
        target.Target,
        lambda: {"target": "cuda -arch=sm_90"},
        {"target": [*bad.TARGET, None]},
    ),
    Api(
        "target.cuda",
        target.cuda,
        lambda: {"model": "h200", "arch": "sm_90"},
        {
            "arch": ["sm_9x", "90", 5, [], "sm_1"],
            "model": [5, None, []],
            "options": [5, None, "x"],
        },
        {"options": "option"},
    ),
    Api(
        "build",
        lambda what, target, **more: autotune.build(what, target=target, **more),
        lambda: {"what": copy_kernel(), "target": "c"},
        {
            "what": bad.OBJECT,
            "target": [5, [], "gpu3", "opencl", "cuda -arch=sm_9x"],
            "name": [5, "", []],
            "compiler": bad.CHOICE,
            "timeout_s": [0, -1, "abc", []],
        },
        {"what": "build"},
    ),
]
