"""Expressions of arrays and rows of tables: what they compute, and what is no expression."""

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from autotune.templates.elementwise import elementwise_cuda
from autotune.templates.elementwise.elementwise_shape import Elementwise
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.driver import build
from autotune.emulator import run_emulated
from autotune.errors import TemplateError
from autotune.target import Target
from autotune.task import create
from tests.templates.emulated import arrays_of, check_emulated, drawn

CHAIN = (
    "where(a > 0.5, relu(a * scale + shift), sigmoid(b) ** 2) - max(b, -1) / 3",
    (("a", (3, 8, 4)), ("scale", (8, 1)), ("shift", (1, 1, 1)), ("b", (3, 1, 4))),
)
EVERY = (
    "exp(a) + log(abs(a) + 1) + sqrt(abs(a)) + rsqrt(abs(a) + 1) + sin(a) + cos(a) + tanh(a) "
    "+ erf(a) + floor(a) + ceil(a) + sigmoid(a) + gelu(a) + min(a, 1e-1) + pow(abs(a), 1.5)",
    (("a", (70,)),),
)


@pytest.mark.parametrize(
    ("args", "rtol"), [(CHAIN, 1e-4), (EVERY, 1e-4), ((*CHAIN, "float16"), 2e-2)]
)
def test_expressions_match_their_reference_in_the_emulator(args, rtol):
    check_emulated("elementwise.cuda", args, rtol=rtol)


# A prime number of elements, rows of odd lengths, columns, and a number.
ODD = {
    "a prime": ("a * 2 + b", (("a", (1009,)), ("b", (1009,)))),
    "rows": ("a * s + t", (("a", (11, 13, 7)), ("s", (13, 1)), ("t", (11, 1, 7)))),
    "columns": ("a - b", (("a", (37, 1)), ("b", (1, 41)))),
    "a number": ("a + b", (("a", (9, 131)), ("b", ()))),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("vec", [2, 4, 8])
@pytest.mark.parametrize("name", ODD)
def test_vectors_reach_across_rows_and_the_last_one_may_be_partial(name, vec):
    shape = Elementwise(*ODD[name], "float16")
    choice = {"threads": 64, "vec": vec, "unroll": 2}
    assert not elementwise_cuda.violation(shape, choice, Target("cuda -arch=sm_90"))
    source = elementwise_cuda.kernel(shape, choice)
    arrays = arrays_of(source)
    run_emulated(source.kernel("cuda"), arrays, orders=(0,))
    want = source.reference(*(each.astype(np.float64) for each in arrays[:-1]))
    np.testing.assert_allclose(arrays[-1].astype(np.float64), want, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("operands", "vec"),
    [
        ((("a", (20_000_003,)),), 8),
        ((("a", (4099, 4099)), ("s", (4099,))), 8),
        ((("a", (6000, 2052)), ("s", (2052,))), 4),
    ],
)
def test_untuned_vectors_are_wide_and_divide_rows_where_such_ones_are(operands, vec):
    text = " + ".join(name for name, _ in operands)
    task = create("elementwise.cuda", (text, operands, "float16"), "cuda -arch=sm_90")
    assert task.default()["vec"].val == vec


# Runs of one element, of odd lengths, beyond a task, and of a single number.
ON_CPU = {
    "a chain": CHAIN,
    "every function": EVERY,
    "several tasks": ("a * b + c", (("a", (5, 3001)), ("b", (5, 1)), ("c", (3001,)))),
    "columns": ("a - b", (("a", (7, 1, 5)), ("b", (4, 1)))),
    "a number": ("a + b", (("a", ()), ("b", (1, 1)))),
}


@pytest.mark.many_cases
@pytest.mark.parametrize("name", ON_CPU)
def test_expressions_match_their_reference_on_a_cpu(name):
    task = create("elementwise.cpu", ON_CPU[name], "c")
    for kernel in drawn(task, 3):
        arrays = arrays_of(kernel)
        build(kernel, target="c")(*arrays)
        want = kernel.reference(*(each.astype("float64") for each in arrays[:-1]))
        np.testing.assert_allclose(arrays[-1], want, rtol=1e-5, atol=1e-5)


def test_expressions_on_a_cpu_keep_nans():
    x = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32)
    for text in ("relu(a)", "max(a, 1)", "max(1, a)", "min(a, 1)", "min(1, a)", "gelu(a)"):
        task = create("elementwise.cpu", (text, (("a", (4,)),)), "c")
        kernel, out = task.instantiate(task.default()), np.zeros(4, np.float32)
        build(kernel, target="c")(x, out)
        assert np.isnan(out[0])


def test_numbers_for_which_functions_on_a_cpu_have_a_way_of_their_own_do_not_change_others():
    """Zeros, denormal, negative and large numbers, among others, and in place."""
    rare = [0, -0.0, 1e-40, -1, np.inf, -np.inf, np.nan, 3e38, 103.9, 104.1, -103.9, -104.1]
    x = np.linspace(0.1, 20, 64 * 15, dtype=np.float32)
    x[:: 64 * 15 // len(rare)] = rare
    for text, function in (("log(a)", np.log), ("exp(a) + 1", lambda a: np.exp(a) + 1)):
        task = create("elementwise.cpu", (text, (("a", x.shape),)), "c")
        module, out = build(task.instantiate(task.default()), target="c"), x.copy()
        module(out, out)
        with np.errstate(all="ignore"):
            want = function(x.astype("float64")).astype("float32")
        np.testing.assert_allclose(out, want, rtol=1e-6, atol=1e-6)


def test_rows_of_a_table_are_taken_by_their_numbers_and_the_nearest_end_beyond_it():
    def index(rng, argument):
        return rng.integers(-3, 12, argument.shape).astype(argument.dtype)

    check_emulated("take_rows.cuda", (7, 12, 9, "float16", "int64"), make={"index": index})


shapes = st.lists(st.sampled_from([1, 2, 3]), max_size=4).map(tuple)


@settings(max_examples=60, deadline=None)
@given(st.lists(shapes, min_size=1, max_size=3))
def test_the_strides_of_fewer_axes_reach_the_elements_that_broadcast_does(given_shapes):
    names = [(f"p{i}", shape) for i, shape in enumerate(given_shapes)]
    try:
        np.broadcast_shapes(*given_shapes)
    except ValueError:
        with pytest.raises(TemplateError, match="shape mismatch"):
            Elementwise("p0", tuple(names))
        return
    shape = Elementwise("p0", tuple(names))
    extents, strides = shape.plan
    for number, (_, own) in enumerate(names):
        places = np.arange(int(np.prod(own))).reshape(own)
        wanted = np.broadcast_to(places, shape.shape).ravel()
        steps = strides[number] if strides else ()
        grid = np.indices(extents).reshape(len(extents), -1) if extents else np.zeros((0, 1), int)
        np.testing.assert_array_equal(np.array(steps, int) @ grid, wanted)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a +", "is no expression"),
        ("a.real", "must be a number, an operation, or one of a"),
        ("b", "one of a"),
        ("True", "a number"),
        ("__import__('os')", "a call, with as many operands"),
        ("exp(a, a)", "a call, with as many operands"),
        ("where(a, a, a)", "one comparison"),
        ("a > 1", "a number, an operation"),
        ("10 ** 400 * 1" + "0" * 400, "a number"),
        ("(lambda: a)()", "a call"),
        ("-" * 300 + "a", "nested too deeply"),
    ],
)
def test_what_is_no_expression_is_refused_with_the_part_that_is_none(text, message):
    with pytest.raises(TemplateError, match=message):
        create("elementwise.cuda", (text, (("a", (4,)),)), "cuda")


@pytest.mark.parametrize(
    "operands",
    [(), (("out", (4,)),), (("a", (4,)), ("a", (4,))), (("a-b", (4,)),), (("a", (0,)),)],
)
def test_operands_that_cannot_be_are_refused(operands):
    with pytest.raises(TemplateError, match="elementwise: "):
        create("elementwise.cuda", ("a", operands), "cuda")
