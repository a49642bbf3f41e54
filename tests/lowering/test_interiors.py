"""Parts of rows that a mask leaves whole are known before their elements, or not at all."""

import pytest

from autotune.ir.expr import FloatImm, IntImm, Load, Select, Var
from autotune.ir.simplify import Simplifier
from autotune.ir.stmt import Buffer, For, ForKind, If, Store, seq
from autotune.ir.structure import walk
from autotune.lowering.passes.draft import Draft
from autotune.lowering.passes.interiors import ask_once
from autotune.te.joined_parts import JOINS_PARTS


def asked(end, *before, gpu=True):
    """What is asked first of rows of 8 parts of 4 elements that are seen up to an end."""
    part, i = Var("part", "int32"), Var("i", "int32")
    x = Buffer("x", (4,), "float32", "local")
    value = Select(part * 4 + i < end, Load(x, (i,)), FloatImm(0.0, "float32"))
    rows = For(i, IntImm(4), ForKind.SERIAL, seq(*before, Store(x, (i,), value)))
    loop = For(part, IntImm(8), ForKind.SERIAL, rows).with_annotation(JOINS_PARTS)
    draft = Draft("C", "C", Simplifier({part: (0, 7), i: (0, 3)}), gpu=gpu)
    found = [node for node in walk(ask_once(loop, draft)) if isinstance(node, If)]
    return [str(node.cond) for node in found]


def test_a_place_is_asked_once_on_a_gpu():
    assert asked(IntImm(18)) == ["part < 4"]
    assert asked(IntImm(18), gpu=False) == []


@pytest.mark.parametrize("scope", ["local", "shared", "warp"])
def test_what_a_part_computes_is_not_asked_before_it_is_there(scope):
    length = Buffer("length", (1,), "int32", scope)
    fill = Store(length, (IntImm(0),), IntImm(18))
    assert asked(Load(length, (IntImm(0),)), fill) == []
