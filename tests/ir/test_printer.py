"""The text of expressions and statements."""

import pytest

from autotune.ir import (
    Add,
    Allocate,
    AsyncCommit,
    AsyncCopy,
    AsyncWait,
    Barrier,
    Broadcast,
    Buffer,
    Call,
    Evaluate,
    For,
    ForKind,
    Function,
    If,
    IfThenElse,
    LetStmt,
    Load,
    Not,
    Ramp,
    Select,
    Store,
    Sub,
    TruncDiv,
    TruncMod,
    Var,
    cast,
    const,
    seq,
    to_text,
)

N, M = Var("i"), Var("j")
X = Var("x", "float32")
A = Buffer("A", (64,), "float32")
B = Buffer("B", (64,), "float32")


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (N * 4 + M, "i * 4 + j"),
        ((N + M) * 4, "(i + j) * 4"),
        (Sub(N, Sub(M, N)), "i - (j - i)"),
        (Sub(Sub(N, M), N), "i - j - i"),
        (Add(N, Add(M, N)), "i + (j + i)"),
        (N // 4, "floordiv(i, 4)"),
        (N % 4, "floormod(i, 4)"),
        (TruncDiv(N + M, const(4)), "(i + j) / 4"),
        (TruncMod(N, const(4)), "i % 4"),
        ((N < 3) & (M >= 2), "i < 3 && j >= 2"),
        (((N < 3) | (M >= 2)) & (N == M), "(i < 3 || j >= 2) && i == j"),
        (Not(N < 3), "!(i < 3)"),
        (X + 1, "x + 1.0f"),
        (const(0.1, "float16"), "0.1h"),
        (const(1, "float64"), "1.0"),
        (const(3, "int64"), "int64(3)"),
        (const(True), "true"),
        (cast(N, "float32"), "float32(i)"),
        (Call("exp", (X,)), "exp(x)"),
        (Select(N < 3, X, X * 2), "select(i < 3, x, x * 2.0f)"),
        (IfThenElse(N < 3, X, X * 2), "if_then_else(i < 3, x, x * 2.0f)"),
        (Load(A, (N + 1,)), "A[i + 1]"),
        (Ramp(N, 1, 4), "ramp(i, 1, 4)"),
        (Broadcast(X, 4), "broadcast(x, 4)"),
        (const(-3) - N, "-3 - i"),
    ],
)
def test_text_of_an_expression(node, text):
    assert str(node) == text


def test_text_of_a_function():
    inner = Var("i.inner")
    at = N * 4 + inner
    shared = Buffer("A.shared", (4, 4), "float32", "shared", (5, 1))
    body = For(
        N,
        16,
        ForKind.THREAD,
        Allocate(
            shared,
            seq(
                AsyncCopy(shared, const(0), A, N * 4, 16),
                AsyncCommit(),
                AsyncWait(0),
                Barrier(),
                For(
                    inner,
                    4,
                    ForKind.VECTORIZED,
                    LetStmt(M, at + 1, Store(B, (at,), Load(shared, (const(0), inner)))),
                ),
                If(N == 0, Evaluate(Call("f", (N,))), Evaluate(Call("g", (N,)))),
            ),
        ),
        "blockIdx.x",
        {"auto_unroll_max_step": 16},
    )
    expected = """\
fn main(A: in float32[64], B: out float32[64]):
  for i in 0..16:  # blockIdx.x, auto_unroll_max_step=16
    allocate A.shared: float32[4, 4] @shared strides=[5, 1]
    async_copy A.shared[0] <- A[i * 4], 16 bytes
    async_commit
    async_wait(0)
    barrier(shared)
    for i.inner in 0..4:  # vectorized
      let j = i * 4 + i.inner + 1
      B[i * 4 + i.inner] = A.shared[0, i.inner]
    if i == 0:
      f(i)
    else:
      g(i)"""
    assert to_text(Function("main", (A, B), body, ("in", "out"))) == expected


def test_different_variables_of_one_name_are_told_apart():
    assert str(N + Var("i")) == "i + i.1"
    assert str(N + Var("i") + Var("i.1") + N) == "i + i.1 + i.1.1 + i"
