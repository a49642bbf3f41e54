"""What every template that ships promises; a new one cannot land without a case here.

Each is also in the tables of `tests/templates/test_spaces_are_fast.py` (its largest spaces) and,
where networks use it, of `tests/templates/layers/test_worth_trying.py`.
"""

import inspect
import math
import re
from functools import cache
from itertools import islice

import autotune.templates
import ml_dtypes
import numpy as np
import pytest

import autotune
from autotune.driver.kernel_of import kernel_of
from autotune.errors import AutotuneError
from autotune.kernel import SourceKernel, launch_violation
from autotune.target import Target
from autotune.task import create
from autotune.task.template import TASK_TABLE
from autotune.utils.check import shown
from tests.topi.evaluate import evaluate

IMAGES = (1, 8, 8, 4, 4, 3, 3, 1, 1)
EACH = (1, 8, 8, 4, 1, 3, 3)
# Small arguments of each template, which are right.
SMALL = {
    "attention": (1, 4, 8, 8, 64, 2, True),
    "conv2d_int8": (1, 8, 8, 4, 4, 3, 3),
    "conv2d_nchw": IMAGES,
    "conv2d_nhwc.cuda": IMAGES,
    "conv2d_transpose.cuda": ((1, 4, 5, 5), (4, 3, 3, 3)),
    "conv3d.cuda": ((1, 2, 5, 5, 5), (3, 2, 3, 3, 3)),
    "cumsum": (4, 8),
    "depthwise_conv2d": EACH,
    "elementwise": ("a + 1", (("a", (4, 3)),)),
    "gemm.cpu": (8, 8, 8, 2),
    "gemm.cuda": (8, 8, 8, "float32", 2),
    "gemm_int8": (8, 8, 8),
    "gemm_nn": (8, 8, 8),
    "gemm_packed.cpu": (8, 8, 8),
    "group_norm": (2, 4, 8, 2),
    "layer_norm": (4, 8),
    "log_softmax": (4, 8),
    "matvec.cuda": (8, 8, 2),
    "pool2d": ("max", 1, 8, 8, 4, 2),
    "reduce": ("sum", 4, 8, 2),
    "rms_norm": (4, 8),
    "softmax": (4, 8),
    "take_rows.cuda": (4, 8, 3),
    "te/conv2d_nchw": IMAGES,
    "te/conv2d_nchw_winograd.cuda": (1, 6, 6, 4, 4, 3, 1),
    "te/dense": (4, 8, 16),
    "te/depthwise_conv2d_nchw": EACH,
    "te/gemm": (8, 8, 8),
    "te/softmax": (4, 8),
    "transpose": ((4, 3), (1, 0)),
    "winograd_conv2d": (1, 8, 8, 8, 8),
}
NAMES = [
    name
    for name, entry in TASK_TABLE.items()
    if getattr(entry.fcustomized, "__module__", "").startswith("autotune.templates.")
]
TARGETS = {"cuda": "cuda -arch=sm_90", "cpu": "llvm"}
HUGE = 2**70
# By annotation what is no value of it, and by name what is none of that argument.
NONE_OF = {
    "bool": ["yes", 5, None],
    "int": [-1, 1.5, "a", None, HUGE, True],
    "float": ["a", None, math.nan, (1,)],
    "str": ["no such", "", 5, None],
    "Sequence[int]": [(), 5, None, "abc", (1.5, 1.5)],
    "Sequence[tuple[str, Sequence[int]]]": [(), 5, None, "abc", (("a",),), (("a", (0,)),)],
}
LISTS = {
    "stride": [0, -1, (1, 0), (1, 2, 3, 4), 1.5, "a", None],
    "padding": [-1, (1, -1), 1.5, "same", None],
}
LISTS |= {
    "outer": [0, -1, (0,), (1, 2), 1.5, "a", None, HUGE],
    "depth": [0, -1, (2, 4), 1.5, None],
}
LISTS |= {"strides": LISTS["stride"], "dilation": LISTS["stride"], "size": LISTS["stride"]}
BY_NAME = {
    "zero": [300, -129, 1.5, "a", None],
    "out_zero": [1, -1, 1.5, "a", None],  # of floats
    "out_dtype": ["int32", "float16", "", 5, None],
    "dtype": ["float8", "complex64", "bool", "", 5, None],
    "groups": [0, -1, 3, 1.5, None],
    "output_padding": LISTS["padding"],
    "data": [(), (0,) * 4, 5, None, "abc"],
    **LISTS,
}
BY_NAME["weight"] = BY_NAME["data"]
# What is right after all: any elements can be moved, no operand may be shared by a batch, and 0
# stands for as many heads as q has.
RIGHT = {
    ("take_rows.cuda", "dtype", "bool"),
    ("transpose.cuda", "dtype", "bool"),
    ("transpose.cpu", "dtype", "bool"),
    ("attention.cuda", "kv_heads", 0),
    ("attention.cpu", "kv_heads", 0),
    ("attention.cuda", "bias", ()),
    ("attention.cpu", "bias", ()),
    ("gemm.cuda", "shared", ""),
    ("gemm.cuda", "b_row", 0),
    ("gemm.cpu", "shared", ""),
    ("conv2d_int8.cuda", "residual", ""),
    ("conv2d_int8.cuda", "residual_zero", 0),
    ("conv2d_int8.cpu", "residual_zero", 0),
    *(
        (f"{name}_int8.{kind}", each, 0)
        for name in ("conv2d", "gemm")
        for kind in ("cpu", "cuda")
        for each in ("zero", "out_zero")
    ),
}


def small(name):
    return SMALL.get(name) or SMALL[name.rpartition(".")[0]]


def task_of(name, args=None):
    return create(name, small(name) if args is None else args, TARGETS[name.rpartition(".")[2]])


def parameters(name):
    return list(inspect.signature(TASK_TABLE[name].fcustomized).parameters.values())


def wrong(name):
    """Yield arguments of a template of which one is wrong: its name, its value, and all."""
    every = parameters(name)
    right = [*small(name), *(each.default for each in every[len(small(name)) :])]
    for place, each in enumerate(every):
        values = BY_NAME.get(each.name) if each.annotation != "int" else None
        values = values or NONE_OF.get(each.annotation)
        if each.annotation == "int":
            values = [0, *(BY_NAME.get(each.name) or NONE_OF["int"])]
        assert values, f"{name}: nothing is known of {each.name}: {each.annotation}"
        for value in values:
            if (name, each.name, value) not in RIGHT:
                yield each.name, value, [*right[:place], value, *right[place + 1 :]]


@cache
def drawn(name):
    """Return what the template makes of some configurations."""
    task = task_of(name)
    space = task.config_space
    indices = space.sample(min(24, len(space)), np.random.default_rng(0))
    return [(space.get(index), task.instantiate(space.get(index))) for index in indices]


def test_every_template_that_ships_has_a_case():
    known = {each for each in NAMES if each in SMALL or each.rpartition(".")[0] in SMALL}
    assert known == {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_computes(name):
    text = inspect.getdoc(TASK_TABLE[name].fcustomized) or ""
    assert re.match(r"[A-Z].{20,}", text)


@pytest.mark.parametrize("name", NAMES)
def test_it_counts_its_work_and_has_an_untuned_choice(name):
    task = task_of(name)
    assert task.flop > 0
    default = task.default()
    assert default is not None
    made = task.instantiate(default)
    if isinstance(made, SourceKernel):
        assert made.reference is not None
        moved = sum(nbytes(each) * (1 + (each.role == "inout")) for each in made.args)
        # Of a table only the rows that are taken move.
        assert task.bytes == moved or name == "take_rows.cuda"
    assert launch_violation(kernel_of(made, task.target), task.target.limits) is None


def nbytes(argument):
    kind = np.dtype(getattr(ml_dtypes, argument.dtype, argument.dtype))
    return math.prod(argument.shape) * kind.itemsize


@pytest.mark.many_cases
@pytest.mark.parametrize("name", NAMES)
def test_nine_of_ten_configurations_that_are_drawn_can_be_launched(name):
    target = Target(TARGETS[name.rpartition(".")[2]])
    refused = [launch_violation(kernel_of(made, target), target.limits) for _, made in drawn(name)]
    assert sum(each is None for each in refused) >= 0.9 * len(refused)


@pytest.mark.many_cases
@pytest.mark.parametrize("name", NAMES)
def test_configurations_compute_what_their_reference_does(name):
    """On a CPU, and in the emulator with blocks that it runs quickly."""
    emulated = name.endswith(".cuda")
    task = create(name, small(name), "cuda -emulate" if emulated else "llvm")
    space, rng = task.config_space, np.random.default_rng(0)
    points = (space.get(i) for i in space.sample(min(60, len(space)), rng))
    made = (task.instantiate(point) for point in points)
    quick = (each for each in made if not emulated or _is_quick(kernel_of(each, task.target)))
    checked = 0
    for each in islice(quick, 2):
        module = autotune.build(each, target=task.target)
        arrays = [_array(a, rng) for a in module.kernel.args]
        inputs = [x.copy() for x in arrays[:-1]]
        module(*arrays)
        np.testing.assert_allclose(
            arrays[-1].astype("float64"), _wanted(each, inputs), rtol=1e-2, atol=1e-3
        )
        checked += 1
    assert checked


ACTIVATED = [
    name
    for name in NAMES
    if name.endswith(".cuda") and "activation" in {each.name for each in parameters(name)}
]


@pytest.mark.many_cases
@pytest.mark.parametrize("name", ACTIVATED)
def test_gelu_by_tanh_is_as_near_to_its_reference_as_rounding_lets_it(name):
    """It and GELU itself are 5e-4 apart."""
    every = {each.name: each.default for each in parameters(name)}
    every |= dict(zip(every, small(name), strict=False)) | {"activation": "gelu_tanh"}
    task = create(name, list(every.values()), "cuda -emulate")
    made, rng = task.instantiate(task.default()), np.random.default_rng(0)
    module = autotune.build(made, target=task.target)
    # Small numbers, of which GELU is no line, and few of which Winograd's method makes large ones.
    arrays = [_array(a, rng) / (8 if a.role == "in" else 1) for a in module.kernel.args]
    arrays = [x.astype("float32") for x in arrays]
    module(*arrays)
    np.testing.assert_allclose(arrays[-1], _wanted(made, arrays[:-1]), atol=2e-5)


HARD_SWISH = "a * min(max(a + 3.0, 0.0), 6.0) / 6.0"
AS_EXPRESSIONS = {
    "conv2d_nchw.cuda": ({}, HARD_SWISH),
    "depthwise_conv2d.cuda": ({"dtype": "float16"}, f"sigmoid(a) * ({HARD_SWISH})"),
    "gemm.cuda": ({"dtype": "float16"}, HARD_SWISH),
    "matvec.cuda": ({"dtype": "float32"}, "a * tanh(log(1.0 + exp(a)))"),
    "winograd_conv2d.cuda": ({}, "relu(a) + gelu(a)"),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", AS_EXPRESSIONS)
def test_an_activation_may_be_an_expression_and_relu_keeps_nan(name):
    given, expression = AS_EXPRESSIONS[name]
    every = {each.name: each.default for each in parameters(name)}
    every |= dict(zip(every, small(name), strict=False)) | given
    for activation in (expression, "relu", "relu6"):
        task = create(name, list((every | {"activation": activation}).values()), "cuda -emulate")
        made, rng = task.instantiate(task.default()), np.random.default_rng(0)
        module = autotune.build(made, target=task.target)
        arrays = [_array(a, rng) for a in module.kernel.args]
        arrays[0].flat[0] = np.nan
        module(*arrays)
        want = _wanted(made, arrays[:-1])
        got = arrays[-1].astype("float64")
        assert 0 < np.isnan(want).sum() < want.size
        np.testing.assert_allclose(got, want, atol=2e-2 if given else 1e-5, rtol=2e-3)


def _is_quick(kernel):
    return all(call.launch.threads <= 256 for call in kernel.calls)


def _array(argument, rng):
    kind = np.dtype(getattr(ml_dtypes, argument.dtype, argument.dtype))
    if argument.role != "in":
        return np.full(argument.shape, 77, kind)
    if kind.kind == "i":
        return rng.integers(0, 4, argument.shape).astype(kind)
    return rng.standard_normal(argument.shape).astype(kind)


def _wanted(made, inputs):
    if isinstance(made, SourceKernel):
        wide = [x if x.dtype.kind == "i" else x.astype("float64") for x in inputs]
        return made.reference(*wide)
    *read, result = made[1]
    return evaluate(result, zip(read, inputs, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_argument_is_an_error_that_says_what_was_expected(name):
    for argument, value, args in wrong(name):
        text = _refusal(name, args)
        told = (" got ", " has ", argument, shown(value), str(value))
        assert any(each in text for each in told), f"{argument}={value!r}: {text}"


def _refusal(name, args):
    """Return what is said of arguments, and nothing where they are taken."""
    try:
        task_of(name, args)
    except AutotuneError as error:
        return str(error)
    return ""
