"""Expressions become the C text that a careful author writes."""

import math

import pytest

from autotune.codegen.c import C
from autotune.codegen.cuda import CUDA
from autotune.codegen.expressions import ExpressionPrinter
from autotune.codegen.identifiers import Names, legal
from autotune.codegen.literals import float_text, int_text
from autotune.errors import LoweringError
from autotune.ir import (
    Add,
    And,
    Buffer,
    Call,
    Cast,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Load,
    Max,
    Min,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    const,
)

A = Buffer("A", (64,), "float32")
H = Buffer("H", (64,), "float16")
W = Buffer("W", (64,), "bfloat16")
S = Buffer("S", (64,), "int8")
L = Buffer("L", (64,), "int64")
i, j, k = Var("i"), Var("j"), Var("k.outer")
x, y, z = (Var(n, "float32") for n in "xyz")
THINGS = (A, H, W, S, L, i, j, k, x, y, z)


def text(expr, dialect=C):
    names = Names()
    for thing in THINGS:
        names.declare(thing, thing.name)
    return ExpressionPrinter(dialect, names, set()).text(expr)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (i * 4 + j, "i * 4 + j"),
        ((i + j) * 4, "(i + j) * 4"),
        (Sub(i, Add(j, k)), "i - (j + k_outer)"),
        (Sub(i, Sub(j, k)), "i - (j - k_outer)"),
        (Add(i, Add(j, k)), "i + j + k_outer"),
        (Add(i, IntImm(-3)), "i - 3"),
        (Mul(i, IntImm(-1)), "-i"),
        (Mul(TruncDiv(i, IntImm(4)), IntImm(7)), "i / 4 * 7"),
        (Mul(i, TruncDiv(j, IntImm(4))), "i * (j / 4)"),
        (Mul(i, Mul(j, IntImm(4))), "i * j * 4"),
        (Mul(i, Mul(TruncMod(j, IntImm(4)), IntImm(3))), "i * (j % 4 * 3)"),
        (Mul(i, Mul(Mul(TruncDiv(j, IntImm(4)), i), j)), "i * (j / 4 * i * j)"),
        (Mul(i, Mul(j, TruncDiv(i, IntImm(4)))), "i * j * (i / 4)"),
        (TruncDiv(i, Mul(j, IntImm(4))), "i / (j * 4)"),
        (TruncMod(i + j, IntImm(7)), "(i + j) % 7"),
        (FloorDiv(i - 3, IntImm(8)), "(i - 3) >> 3"),
        (FloorMod(i - 3, IntImm(8)), "(i - 3) & 7"),
        (Add(FloorDiv(i, IntImm(8)), j), "(i >> 3) + j"),
        (FloorDiv(i, IntImm(6)), "floor_div_i32(i, 6)"),
        (FloorMod(i, j), "floor_mod_i32(i, j)"),
        (Add(x, Add(y, z)), "x + (y + z)"),
        (Mul(x, Mul(y, z)), "x * (y * z)"),
        (Mul(Add(x, y), z), "(x + y) * z"),
        (x / (y / z), "x / (y / z)"),
        (And(i < 4, Or(j < 3, i == j)), "i < 4 && (j < 3 || i == j)"),
        (Or(And(i < 4, j < 3), i == j), "(i < 4 && j < 3) || i == j"),
        (Not(i < j), "!(i < j)"),
        (Select(i < 4, x, y), "(i < 4) ? x : y"),
        (Add(x, IfThenElse(i < 4, y, z)), "x + ((i < 4) ? y : z)"),
        (Select(i < 4, Select(j < 4, x, y), z), "(i < 4) ? ((j < 4) ? x : y) : z"),
        (Load(A, (i * 8 + j,)), "A[i * 8 + j]"),
        (Max(x, const(0.0)), "max_float(0.0f, x)"),
        (Min(i, j), "min_int(i, j)"),
        (Call("exp", (x,)), "exp_f32(x)"),
        (Call("exp", (Cast(x, "float64"),)), "exp((double)x)"),
        (Call("pow", (x, Add(y, z))), "powf(x, y + z)"),
        (Mul(Call("sigmoid", (x,)), y), "sigmoid_f32(x) * y"),
        (Call("bitwise_and", (i, j + 1)), "i & (j + 1)"),
        (Add(Call("shift_left", (i, IntImm(2))), j), "(i << 2) + j"),
        (Cast(i + j, "float32"), "(float)(i + j)"),
        (Cast(x, "int32"), "(int)x"),
        (Cast(i, "bool"), "((i) != 0)"),
        (Mul(Load(S, (i,)), Load(S, (j,))), "(int8_t)(S[i] * S[j])"),
        (Mul(Load(H, (i,)), Load(H, (j,))), "(float)H[i] * (float)H[j]"),
        (Cast(Load(H, (i,)), "float32"), "(float)H[i]"),
        (Cast(Load(W, (i,)), "float32"), "bf16_to_float(W[i])"),
        (Add(Load(L, (i,)), const(3, "int64")), "L[i] + 3ll"),
        (const(float("inf")), "INFINITY"),
        (const(-float("inf")), "-INFINITY"),
    ],
)
def test_c_text(expr, expected):
    assert text(expr) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Var("threadIdx.x") * 4 + Var("blockIdx.y"), "tx * 4 + by"),
        (Mul(Load(H, (i,)), Load(H, (j,))), "H[i] * H[j]"),
        (Cast(Load(H, (i,)), "float32"), "__half2float(H[i])"),
        (Cast(x, "float16"), "__float2half(x)"),
        (Cast(i, "bfloat16"), "__float2bfloat16((float)(i))"),
        (Cast(Load(H, (i,)), "bfloat16"), "__float2bfloat16(__half2float(H[i]))"),
        (Cast(Load(W, (i,)), "int32"), "(int)__bfloat162float(W[i])"),
        (Max(Load(H, (i,)), const(0.0, "float16")), "max_half(H[i], __float2half(0.0f))"),
        (Call("exp", (Load(H, (i,)),)), "__float2half(expf(__half2float(H[i])))"),
        (
            Call("copysign", (Load(H, (i,)), Load(H, (j,)))),  # also of a NaN's sign
            "__ushort_as_half((__half_as_ushort(H[i]) & 0x7fff) | "
            "(__half_as_ushort(H[j]) & 0x8000))",
        ),
        (Call("rsqrt", (x,)), "rsqrtf(x)"),
        (Max(x, y), "max_float(x, y)"),
        (Max(i, j), "max(i, j)"),
        (
            Call("shfl_xor", (x, IntImm(4), IntImm(32))),
            "__shfl_xor_sync(0xffffffffu, x, 4, 32)",
        ),
    ],
)
def test_cuda_text(expr, expected):
    assert text(expr, CUDA) == expected


@pytest.mark.parametrize(
    "value", [0.0, 1.0, -1.5, 0.1, 1 / 3, 3.4028234663852886e38, 1e-45, 16777216.0, 1e10]
)
def test_float_literals_read_back_as_the_same_number(value):
    import numpy as np

    literal = float_text(value, single=True)
    assert literal.endswith("f")
    assert np.float32(literal[:-1]) == np.float32(value)
    assert "." in literal or "e" in literal
    assert float(float_text(value, single=False)) == value


def test_the_extreme_integers_are_legal_c():
    assert int_text(-(2**31), "int32") == "(-2147483647 - 1)"
    assert int_text(-(2**63), "int64") == "(-9223372036854775807ll - 1)"
    assert int_text(2**32 - 1, "uint32") == "4294967295u"


def test_nan_has_a_name():
    assert text(const(math.nan)) == "NAN"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("i.outer", "i_outer"),
        ("float", "float_"),
        ("float4", "float4_"),
        ("tx", "tx_"),
        ("2d", "v2d"),
        ("", "value"),
        ("T_add", "T_add"),
        ("exp", "exp_"),
    ],
)
def test_names_are_legal(name, expected):
    assert legal(name) == expected


def test_two_things_of_one_name_differ_where_both_are_seen():
    names = Names()
    assert names.declare(object(), "i") == "i"
    names.enter()
    assert names.declare(object(), "i") == "i_1"
    names.leave()
    names.enter()
    assert names.declare(object(), "i") == "i_1"


def test_what_has_no_text_is_refused_by_name():
    with pytest.raises(LoweringError, match="no C function for frobnicate of float32"):
        text(Call("frobnicate", (x,)))
    with pytest.raises(LoweringError, match="no C function for exp of int32"):
        text(Call("exp", (i,)))


def test_a_free_variable_is_our_fault():
    with pytest.raises(AssertionError, match="'loose' is used outside"):
        text(Var("loose") + 1)
