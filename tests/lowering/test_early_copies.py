"""Copies to shared memory that come before a ring of asynchronous copies are asynchronous too."""

import pytest

from autotune.ir.expr import IntImm, Load, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import (
    Allocate,
    AsyncCommit,
    AsyncCopy,
    Barrier,
    Buffer,
    For,
    ForKind,
    Store,
    seq,
)
from autotune.ir.structure import walk
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.early_copies import copy_early

GIVEN, KEPT = (
    Buffer("given", (64,), "float32", "global"),
    Buffer("kept", (64,), "float32", "shared"),
)
FIRST = (IntImm(0),)
OWN = Buffer("own", (1,), "float32", "local")


def copy(of=GIVEN, to=KEPT):
    i = Var("i", "int32")
    return For(i, 64, ForKind.SERIAL, Store(to, (i,), Load(of, (i,))))


READ = Store(OWN, FIRST, Load(KEPT, FIRST))
OTHER = Store(OWN, FIRST, Load(OWN, FIRST))


def commits(stmt):
    return For(Var("k", "int32"), 2, ForKind.SERIAL, stmt)


def is_early(*stmts):
    made = copy_early(seq(*stmts), Draft("kernel", "stage", Simplifier(), gpu=True))
    return any(isinstance(node, AsyncCopy) for node in walk(made))


@pytest.mark.parametrize(
    ("stmts", "early"),
    [
        ((copy(), AsyncCommit(), READ), True),
        ((copy(), OTHER, Allocate(OWN, seq(OTHER, AsyncCommit())), READ), True),
        ((copy(), READ, AsyncCommit()), False),
        ((copy(), commits(AsyncCommit())), False),
        ((copy(), READ), False),
        ((copy(of=KEPT), AsyncCommit()), False),
        ((copy(to=OWN), AsyncCommit()), False),
    ],
    ids=[
        "committed",
        "committed inside an allocation",
        "read before",
        "committed in a loop",
        "never committed",
        "of shared memory",
        "to registers",
    ],
)
def test_copies_are_early_that_a_commit_follows_before_they_are_read(stmts, early):
    assert is_early(*stmts) == early


def test_what_is_written_twice_arrives_in_order():
    assert not is_early(copy(), Store(KEPT, FIRST, Load(OWN, FIRST)), AsyncCommit())
    assert not is_early(copy(), Barrier(), READ, AsyncCommit())
