"""Operators on elements, of one tensor and of two, against PyTorch in float64."""

import pytest

torch = pytest.importorskip("torch")

from tests.importers.pytorch.families import Family, check, check_each, t, whole  # noqa: E402

F = torch.nn.functional


ARITHMETIC = {
    "add with alpha": lambda x, y: torch.add(x, y, alpha=3),
    "sub of a number": lambda x, y: 2 - x,
    "rsub": lambda x, y: torch.rsub(x, y, alpha=2),
    "mul by a number": lambda x, y: x * 3,
    "div": lambda x, y: x / (y.abs() + 1),
    "floor_divide": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "trunc_divide": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "remainder": lambda x, y: torch.remainder(x, y),
    "fmod": lambda x, y: torch.fmod(x, y),
    "pow 2": lambda x, y: x**2,
    "pow 5": lambda x, y: x**5,
    "pow -3": lambda x, y: x**-3,
    "pow 0.5": lambda x, y: x.abs() ** 0.5,
    "pow 2.5": lambda x, y: x.abs() ** 2.5,
    "2 to a power": lambda x, y: 2.0**x,
    "atan2": torch.atan2,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "comparisons": lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y),
    "comparison with a number": lambda x, y: x > 0.25,
    "truth values": lambda x, y: (
        (x > 0) & (y > 0),
        (x > 0) | (y > 0),
        ~(x > 0),
        (x > 0) ^ (y > 0),
    ),
    "where": lambda x, y: torch.where(x > y, x, 0.0),
    "where of numbers": lambda x, y: torch.where(x > y, 1.5, 0.5).double(),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, -1e9),
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=2),
    "clamp": lambda x, y: (x.clamp(-0.5, 0.5), x.clamp(min=0.1), x.clamp_max(0.2)),
    "clamp by a tensor": lambda x, y: torch.clamp(x, min=y),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
}


ARITHMETIC = Family({k: (f, t(3, 4), t(3, 4, seed=5)) for k, f in ARITHMETIC.items()})


@pytest.mark.many_cases
@pytest.mark.parametrize("name", ARITHMETIC.cases)
def test_arithmetic_is_what_torch_computes(name):
    ARITHMETIC.check(name)


def test_operands_broadcast_and_promote_as_torch_says():
    check_each(
        (lambda x, y: x + y, t(2, 1, 4), t(3, 1)),
        (lambda x, n: x * n, t(2, 3), whole(5, 3)),
        (lambda n: n / 4, whole(9, 5)),
        (lambda n, m: (n // 3, n % 3, n > m, n + m), whole(99, 7), whole(99, 7, seed=3)),
    )
    check(lambda n: n * 0.5, whole(9, 4), rtol=1e-6)


UNARY = [
    "abs", "ceil", "cos", "erf", "exp", "exp2", "expm1", "floor", "neg", "reciprocal", "relu",
    "sigmoid", "sign", "sin", "square", "tanh", "trunc",
]  # fmt: skip


UNARY = Family({name: (getattr(torch, name), t(4, 5)) for name in UNARY})


@pytest.mark.parametrize("name", UNARY.cases)
def test_functions_of_one_number_are_those_of_torch(name):
    UNARY.check(name)


OF_POSITIVE = ["log", "log2", "log10", "log1p", "sqrt", "rsqrt"]
OF_POSITIVE = Family({name: (getattr(torch, name), t(4, 5).abs() + 0.1) for name in OF_POSITIVE})


@pytest.mark.parametrize("name", OF_POSITIVE.cases)
def test_functions_of_positive_numbers_are_those_of_torch(name):
    OF_POSITIVE.check(name)


ACTIVATIONS = [
    F.celu, F.elu, F.gelu, F.hardsigmoid, F.hardswish, F.hardtanh, F.leaky_relu, F.logsigmoid,
    F.mish, F.relu6, F.selu, F.silu, F.softplus, F.softsign, F.tanhshrink, F.hardshrink,
    F.softshrink,
]  # fmt: skip


ACTIVATIONS = Family({each.__name__: (each, t(4, 9) * 3) for each in ACTIVATIONS})


@pytest.mark.parametrize("name", ACTIVATIONS.cases)
def test_activations_are_those_of_torch(name):
    ACTIVATIONS.check(name)


def test_gelu_by_tanh_glu_and_prelu_are_those_of_torch():
    check_each(
        (lambda x: F.gelu(x, approximate="tanh"), t(4, 5)),
        (lambda x: F.glu(x, 1), t(2, 6, 3)),
        (F.prelu, t(2, 3, 4), t(3).abs()),
        (F.prelu, t(2, 3, 4), t(1).abs()),
    )


def test_divisions_that_round_are_exact_where_the_quotient_is_not():
    far = torch.tensor([2**60 + 1, -(2**60) - 1, 7, -7])
    by = torch.tensor([7, 7, -2, -2])
    check(lambda a, b: (a // b, a % b, torch.fmod(a, b), _towards_zero(a, b)), far, by)
    near = torch.tensor([1.0, -1.0, 2.0, 0.3, -7.5, 5.0], dtype=torch.float64)
    divided = [
        (lambda a, d=divisor: (a // d, a % d, torch.fmod(a, d)), near)
        for divisor in (0.1, -0.1, 3.0, float("inf"), -float("inf"))
    ]
    check_each(*divided, rtol=0)


def _towards_zero(a, b):
    return torch.div(a, b, rounding_mode="trunc")


def test_bits_of_whole_numbers_are_combined():
    a, b = torch.arange(5), torch.tensor([3, -1, 7, 2, 0])
    check(lambda a, b: (a & b, a | b, a ^ b, ~a), a, b)
    check(lambda a, b: (a << 2, b >> 1, b >> a, (b.to(torch.uint8) >> 4) & 15), a, b)


def test_questions_of_floats_and_assignments_to_parts_are_those_of_torch():
    x = torch.tensor([[float("nan"), float("inf"), -1.5], [2.5, -0.0, -float("inf")]])

    def assigned(a):
        made = a.clone()
        made[:, 0] = a[0, :2]
        made[1] = 3
        return made

    check_each(
        (lambda a: (a.isnan(), a.isinf()), x),
        (lambda a: (a.round(), (a * 9).long().isnan()), t(2, 3)),
        (assigned, t(2, 3)),
    )


def test_limits_that_cross_give_the_upper_one():
    check(lambda a: (a.clamp(2, -1), (a * 9).long().clamp(2, -1)), t(2, 3))


def test_angles_of_points_on_axes_and_far_away_are_those_of_torch():
    inf, nan = float("inf"), float("nan")
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, inf, -inf, nan], dtype=torch.float64)
    check(lambda a, b: (torch.atan2(a[:, None], b[None]), a.angle()), x, x)
