"""Valid points are counted exactly, by looking at few states and not at every point."""

import itertools
import operator
from types import SimpleNamespace

import autotune.templates  # noqa: F401 - registers the tasks
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autotune.task import ConfigSpace, create
from autotune.task.constraints.counting import Counter, Uncountable

VALUES = {"a": [1, 2, 4, 8], "b": [1, 2, 3, 6], "c": [1, 3, 4], "d": [0, 1, 2], "e": [0, 1]}
NAMES = list(VALUES)


def space_of(*predicates):
    space = ConfigSpace()
    for name, values in VALUES.items():
        space.define_knob(name, values)
    for predicate in predicates:
        space.multi_filter(predicate)
    return space


def counter_of(space):
    points = space._points
    return Counter(points.constraints, points.radix.dims)


def numbers(c):
    return [c[name].val for name in NAMES]


# Expressions as filters of templates have them, over all five knobs.
EXPRESSIONS = [
    lambda a, b, c, d, e: a * b * c,
    lambda a, b, c, d, e: a * (b + c) + b * c,
    lambda a, b, c, d, e: (a * c + 3) // b,
    lambda a, b, c, d, e: -(-12 // (a * b)),
    lambda a, b, c, d, e: b + (a > b) * (a - b) + d,
    lambda a, b, c, d, e: (a * 12) % b + c,
    lambda a, b, c, d, e: a * d - c * e,
    lambda a, b, c, d, e: a * b / c,
    lambda a, b, c, d, e: (d > 0) & (a * b > 6) | (e == 1) & (c != 3),
    lambda a, b, c, d, e: e * (a * b) + (1 - e) * c,
]
COMPARED = [
    lambda x, limit: x <= limit,
    lambda x, limit: x > limit,
    lambda x, limit: x == limit,
    lambda x, limit: x != limit,
]
condition = st.tuples(
    st.sampled_from(EXPRESSIONS), st.sampled_from(COMPARED), st.integers(-2, 40), st.booleans()
)


def filter_of(expression, compared, limit, asks):
    def predicate(c):
        values = numbers(c)
        if asks and c["e"].val and values[0] > 2:  # parts the filter in two
            return True
        return compared(expression(*values), limit)

    return predicate


@settings(max_examples=60, deadline=None)
@given(st.lists(condition, min_size=1, max_size=4), st.data())
def test_counts_are_those_of_all_points_gone_through(conditions, data):
    predicates = [filter_of(*one) for one in conditions]
    points = [dict(zip(NAMES, p, strict=True)) for p in itertools.product(*VALUES.values())]

    class Value:
        def __init__(self, val):
            self.val = val

    def accepted(point):
        shown = {name: Value(value) for name, value in point.items()}
        return all(predicate(shown) for predicate in predicates)

    valid = [point for point in points if accepted(point)]
    if not valid:
        return
    counter = counter_of(space_of(*predicates))
    assert counter.count() == len(valid)
    ranges = []
    for name in NAMES:
        first = data.draw(st.integers(0, len(VALUES[name])))
        ranges.append(slice(first, data.draw(st.integers(first, len(VALUES[name])))))
    within = [
        point
        for point in valid
        if all(p in VALUES[n][s] for (n, p), s in zip(point.items(), ranges, strict=True))
    ]
    assert counter.count(ranges) == len(within)


# Rules as templates have them, of any shape: sums of products, some factors of which are a number
# with a product or a quotient added to it or taken from it. They are trees: (operator, a, b).
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv}
knob_or_number = st.one_of(st.sampled_from(NAMES), st.integers(-3, 12))
products = st.recursive(
    knob_or_number, lambda part: st.tuples(st.just("*"), part, part), max_leaves=3
)
less_or_more = st.tuples(st.sampled_from("+-"), st.sampled_from(NAMES), st.integers(0, 3))
dividends = st.tuples(st.just("*"), st.one_of(less_or_more, st.sampled_from(NAMES)), products)
quotients = st.tuples(st.just("//"), dividends, st.sampled_from("abc"))
inner = st.tuples(st.sampled_from("+-"), knob_or_number, st.one_of(quotients, products))
terms = st.tuples(st.just("*"), st.sampled_from(NAMES), inner)
rules = st.recursive(
    terms, lambda part: st.tuples(st.sampled_from("+-*"), part, part), max_leaves=3
)


def value_of(tree, c):
    match tree:
        case str():
            return c[tree].val
        case int():
            return tree
    function, left, right = tree
    return ARITHMETIC[function](value_of(left, c), value_of(right, c))


# What a product of 0 leaves unasked for is divided by all the same; a sum has a part twice.
DIVISOR_UNASKED_FOR = [
    (("*", "d", "b"), operator.le, 0),
    (("+", ("*", "d", ("//", ("*", "c", "a"), "b")), ("*", "a", "a")), operator.le, 2),
]
A_PART_TWICE = [(("+", ("*", "a", ("-", "c", "b")), ("*", "a", ("-", "c", "b"))), operator.le, 1)]


@settings(max_examples=150, deadline=None)
@example(DIVISOR_UNASKED_FOR)
@example(A_PART_TWICE)
@given(st.lists(st.tuples(rules, st.sampled_from(COMPARED), st.integers(-5, 40)), max_size=3))
def test_rules_of_any_shape_are_counted_as_all_points_gone_through(conditions):
    predicates = [lambda c, t=t, o=o, k=k: o(value_of(t, c), k) for t, o, k in conditions]
    points = itertools.product(*VALUES.values())
    shown = ({n: SimpleNamespace(val=v) for n, v in zip(NAMES, p, strict=True)} for p in points)
    exact = sum(all(predicate(c) for predicate in predicates) for c in shown)
    if exact:
        assert counter_of(space_of(*predicates)).count() == exact


def test_a_filter_that_cannot_be_followed_is_counted_by_its_table():
    space = space_of(
        lambda c: hash(str(c["a"].val * c["b"].val)) % 3 != 1,
        lambda c: c["b"].val * c["c"].val < 9,
    )
    for constraint in space._points.constraints:
        constraint.tabulate()
    exact = sum(
        hash(str(a * b)) % 3 != 1 and b * c < 9
        for a, b, c in itertools.product(VALUES["a"], VALUES["b"], VALUES["c"])
    )
    assert counter_of(space).count() == 6 * exact


def test_a_divisor_that_may_be_zero_is_left_to_others():
    space = space_of(lambda c: c["d"].val > 0 and c["a"].val * 8 // (c["d"].val * c["b"].val) > 1)
    with pytest.raises(Uncountable):
        counter_of(space)
    exact = sum(
        d > 0 and a * 8 // (d * b) > 1
        for a, b, d in itertools.product(VALUES["a"], VALUES["b"], VALUES["d"])
    )
    assert len(space) == 6 * exact


@pytest.mark.parametrize(("args", "listed"), [((8, 32, 32), True), ((16, 64, 64), False)])
def test_a_range_of_indices_is_counted_as_its_points_are(args, listed):
    space = create("gemm_nn.cuda", (*args, "float32", True), "cuda -arch=sm_90").config_space
    assert (space._points._counter is None) == listed
    first, last = space.range_length // 3, space.range_length // 3 + 20000
    digits = space._points.radix.digits(np.arange(first, last))
    assert space.subrange_length(first, last) == space._points.accepts(digits).sum()


F16 = "float16"
# The last arguments of a convolution of 16-bit floats, from bias on.
OF_HALVES = (True, "relu", False, False, 1, F16)
# The last arguments of a convolution that is to be multiplied by fmaf.
BY_FMA = (False, False, False, False, 1, 1, "none", False, False, True)


@pytest.mark.parametrize(
    ("name", "args", "most"),
    [
        ("conv2d_nchw.cuda", (1, 56, 56, 64, 64, 3, 3, 1, 1, *BY_FMA), 130_000),
        ("conv2d_nchw.cuda", (1, 14, 14, 256, 256, 3, 3, 1, 1, *BY_FMA), 80_000),
        ("conv2d_nchw.cuda", (1, 224, 224, 64, 3, 7, 7, 2, 3, *BY_FMA), 60_000),
        ("gemm_nn.cuda", (1024, 1024, 1024, "float32", True), 50_000),
        ("gemm_nn.cuda", (16, 4096, 4096), 20_000),
    ],
)
def test_large_spaces_of_templates_are_counted_from_few_states(name, args, most):
    space = create(name, args, "cuda -arch=sm_90").config_space
    assert space.range_length > 20 * most or name == "gemm_nn.cuda"
    assert len(space) > 0
    assert space.len_is_exact
    counter, count = space._points._counter
    assert count == len(space)
    assert 0 < counter.cells <= most
    rng = np.random.default_rng(0)
    digits = rng.integers(0, space._points.radix.dims, (200_000, len(space._points.radix.dims)))
    drawn = int(space._points.accepts(digits).sum())
    assert drawn == pytest.approx(
        len(space) / space.range_length * len(digits), abs=5 * drawn**0.5
    )


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("conv2d_nhwc.cuda", (8, 7, 7, 512, 512, 3, 3, 1, 1, True, "relu", *[False] * 2, 1, F16)),
        (
            "conv2d_nhwc.cuda",
            (1, 12, 12, 317, 179, 5, 1, 1, 2, False, "none", *[False] * 2, 1, F16),
        ),
        ("conv2d_nhwc.cuda", (1, 39, 39, 332, 68, 3, 3, 2, 1, True, "gelu", *[False] * 2, 2, F16)),
        ("gemm.cuda", (1024, 1024, 1024, F16)),
        ("gemm.cuda", (1023, 1023, 1023, F16)),
        ("gemm.cuda", (1024, 1024, 1024, "tf32")),
        ("attention.cuda", (1, 8, 1024, 1024, 64)),
    ],
)
def test_spaces_of_tensor_cores_are_listed_or_counted_and_never_gone_through(name, args):
    points = create(name, args, "cuda -arch=sm_90").config_space._points
    assert not points._joint.checks or points._counter is not None


@pytest.mark.parametrize("cells", [1, 7, 64])
def test_states_looked_at_in_parts_are_counted_as_together(monkeypatch, cells):
    space = space_of(
        lambda c: c["a"].val * c["b"].val * c["c"].val <= 24,
        lambda c: (c["d"].val > 0) | (c["a"].val * c["e"].val != 4),
    )
    together = counter_of(space).count()
    monkeypatch.setattr("autotune.task.constraints.counting.TOGETHER", cells)
    assert counter_of(space).count() == together == len(space)
