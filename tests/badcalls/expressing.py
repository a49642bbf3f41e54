"""Tensor expressions and schedules."""

from autotune import te
from tests.badcalls import pools as bad
from tests.badcalls.api import Api

NO_TENSOR = [5, None, "abc", [], bad.Odd(), len]
NO_AXIS = [5, None, "abc", bad.Odd(), 1.5]


def stage():
    a = te.placeholder((8, 8), name="a")
    b = te.compute((8, 8), lambda i, j: a[i, j] + 1, name="b")
    schedule = te.create_schedule(b.op)
    return schedule[b], b.op.axis


def on_loop(method, **good):
    def call(axis="first", **given):
        made, loops = stage()
        return getattr(made, method)(loops[0] if axis == "first" else axis, **given)

    return call, lambda: dict(good)


def split(**given):
    return on_loop("split")[0](**given)


EXPRESSIONS = [
    Api(
        "te.placeholder",
        te.placeholder,
        lambda: {"shape": (2, 3)},
        {"shape": [(0,), (4, -1), (4, "n"), ((4,), 4), None, {}, bad.Odd(), (1.5,)]},
    ),
    Api(
        "te.placeholder",
        te.placeholder,
        lambda: {"shape": (2, 3)},
        {"dtype": ["float31", "", 5, None, [], "float32x"]},
    ),
    Api(
        "te.create_schedule",
        te.create_schedule,
        lambda: {"ops": te.compute((2,), lambda i: i, name="c").op},
        {"ops": [one for one in NO_TENSOR if one != []]},
        {"ops": "create_schedule"},
    ),
    Api("split", split, lambda: {"factor": 2}, {"factor": [0, -1, 1.5, "abc", [], bad.Odd()]}),
    Api("split", split, lambda: {"factor": 2}, {"axis": NO_AXIS}, {"axis": "split"}),
    *[
        Api(method, *on_loop(method), {"axis": NO_AXIS}, {"axis": method})
        for method in ("unroll", "vectorize", "parallel")
    ],
]
