"""The simplifier: its rules one by one, and against evaluation on random expressions."""

import random
from itertools import product

import pytest

from autotune.ir.analysis_affine import Affine
from autotune.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    CompareOp,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
)
from autotune.ir.simplify import Simplifier, simplify
from autotune.ir.visitor import Rewriter

RANGES = {"o": (0, 10), "t": (0, 97), "i": (0, 6), "n": (-5, 5), "u": (0, 3)}
VARS = {name: Var(name) for name in RANGES}
O, T, I, N, U = VARS.values()  # noqa: E741


def ranges():
    return {VARS[name]: ends for name, ends in RANGES.items()}


class Plain(Rewriter):
    """Show every division as the plain one; which one it is has a test of its own."""

    def visit_FloorDiv(self, node):
        return TruncDiv(self.rewrite(node.a), node.b)

    def visit_FloorMod(self, node):
        return TruncMod(self.rewrite(node.a), node.b)


def text(expr):
    return str(Plain().rewrite(simplify(expr, ranges())))


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ((O * 98 + T) // 98, "o"),
        ((O * 98 + T) % 98, "t"),
        ((O * 98 + T) // 49, "o * 2 + t / 49"),
        ((O * 49 + I) // 98, "o / 2"),
        ((O * 49 + I) % 98, "o % 2 * 49 + i"),
        ((O * 7 + I) // 7 * 7 + (O * 7 + I) % 7, "o * 7 + i"),
        (T // 7 // 7, "t / 49"),
        (T % 49 // 7, "t / 7 % 7"),
        (T // 7 % 7 * 7 + T % 7, "t % 49"),
        (T // 49 * 49 + T % 49 // 7 * 7 + T % 7, "t"),
        (T % 49 % 7, "t % 7"),
        ((T % 49 + 49) % 49, "t % 49"),
        (O * 3 - O * 2 - O, "0"),
        ((N + 8) // 16, "0"),
        (T // 64, "t / 64"),
        (N // 3, "n / 3"),
        (Min(I, O + 7), "i"),
        (Max(O, IntImm(0)), "o"),
        (I - 8, "i - 8"),
        (3 - I, "3 - i"),
    ],
)
def test_an_index_takes_its_simplest_form(expr, expected):
    assert text(expr) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (I < 7, "true"),
        (I >= 7, "false"),
        (I + 1 >= 1, "true"),
        (O * 98 + T < 1024, "o * 98 + t < 1024"),
        (O * 7 + I < 70, "o < 10"),
        (O * 7 + I < 73, "o * 7 + i < 73"),
        (1 - I <= 0, "i >= 1"),
        (I + U > 8, "i + u >= 9"),
        (N < U, "n < u"),
        (EQ(I * 2, IntImm(3)), "false"),
        (EQ(I * 2, IntImm(4)), "i == 2"),
        (NE(I, IntImm(9)), "true"),
        (And(I < 7, O < 3), "o < 3"),
        (IfThenElse(I < 7, O, T), "o"),
    ],
)
def test_a_condition_is_proven_or_made_simple(expr, expected):
    assert text(expr) == expected


def test_the_sign_of_the_numerator_chooses_the_division():
    assert isinstance(simplify(T // 3, ranges()), TruncDiv)
    assert isinstance(simplify(T // 4, ranges()), FloorDiv)
    assert isinstance(simplify(N % 3, ranges()), FloorMod)
    assert isinstance(simplify(T % 3, ranges()), TruncMod)


def test_equal_forms_are_one_object():
    simplifier = Simplifier(ranges())
    assert simplifier.simplify(O * 98 + T) is simplifier.simplify(T + O * 49 * 2)


def test_a_constant_offset_shares_its_base():
    simplifier = Simplifier(ranges())
    a, b = simplifier.simplify(O * 98 + T + 3), simplifier.simplify(O * 98 + T + 4)
    assert a.a is b.a


def test_substitution_simplifies_again():
    simplifier = Simplifier(ranges())
    form = simplifier.form((O * 98 + T) // 49 % 2)
    at_zero = simplifier.substitute(form, {T: Affine({}, 60)})
    assert at_zero.terms == {}
    assert at_zero.const == 1


def evaluate(expr: Expr, values: dict) -> int:
    if isinstance(expr, Var):
        return values[expr]
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, IfThenElse):
        return evaluate(expr.then if evaluate(expr.cond, values) else expr.other, values)
    if isinstance(expr, Not):
        return not evaluate(expr.a, values)
    assert isinstance(expr, BinaryOp)
    a, b = evaluate(expr.a, values), evaluate(expr.b, values)
    table = {Add: a + b, Sub: a - b, Mul: a * b, Min: min(a, b), Max: max(a, b)}
    if type(expr) in table:
        return table[type(expr)]
    if isinstance(expr, CompareOp):
        return type(expr).of_numbers(a, b)
    if isinstance(expr, And):
        return a and b
    if isinstance(expr, Or):
        return a or b
    return type(expr).of_ints(a, b)


def random_expr(rng: random.Random, variables: list, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(variables) if rng.random() < 0.8 else IntImm(rng.randint(-9, 9))
    a = random_expr(rng, variables, depth - 1)
    kind = rng.choice("++-*////%%%%mc")
    if kind in "+-":
        b = random_expr(rng, variables, depth - 1)
        return a + b if kind == "+" else a - b
    if kind == "*":
        return a * rng.choice([2, 3, 4, 6, 7, -1, 12])
    if kind == "/":
        return a // rng.choice([2, 3, 4, 6, 8, 12])
    if kind == "%":
        return a % rng.choice([2, 3, 4, 6, 8, 12])
    b = random_expr(rng, variables, depth - 1)
    if kind == "m":
        return rng.choice([Min, Max])(a, b)
    compare = rng.choice([EQ, GE, GT, LE, LT, NE])
    return IfThenElse(compare(a, b), a, random_expr(rng, variables, depth - 1))


@pytest.mark.parametrize("seed", range(20))
def test_random_expressions_keep_their_values(seed):
    rng = random.Random(seed)
    spans = {
        Var("a"): (0, rng.randint(1, 12)),
        Var("b"): (0, 3),
        Var("c"): (-4, rng.randint(0, 5)),
    }
    points = [
        dict(zip(spans, p, strict=True))
        for p in product(*(range(x, y + 1) for x, y in spans.values()))
    ]
    simplifier = Simplifier(spans)
    for _ in range(60):
        expr = random_expr(rng, list(spans), 4)
        if rng.random() < 0.3:
            expr = rng.choice([EQ, GE, GT, LE, LT, NE])(expr, random_expr(rng, list(spans), 2))
        short = simplifier.simplify(expr)
        low, high = simplifier.bounds(short) if short.dtype == "int32" else (0, 1)
        for values in rng.sample(points, 25):
            wanted = evaluate(expr, values)
            assert evaluate(short, values) == wanted, f"{expr} -> {short} at {values}"
            assert low <= wanted <= high, f"{expr} in [{low}, {high}], got {wanted}"


def test_what_a_simplifier_built_of_one_minimum_takes_other_values():
    space = Simplifier({O: (0, 10), I: (0, 6)})
    built = space.expr(space.form(Min(O * 7 + I, IntImm(69))))
    assert isinstance(built, Min)
    at_the_end = space.simplify(built, {O: space.form(IntImm(10))})
    assert isinstance(at_the_end, IntImm)
    assert at_the_end.value == 69
    assert str(space.simplify(built, {O: space.form(IntImm(2))})) == "i + 14"
