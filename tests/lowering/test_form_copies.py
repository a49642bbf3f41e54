"""Copies of forms are what substitution gives, and are simplified a bounded number of times."""

import itertools
import weakref

import numpy as np
import pytest

from autotune.ir import Buffer, If, Load, Store, Var
from autotune.ir.analysis_affine import Affine, AffineSpace, constant, scale_affine
from autotune.ir.simplify import Simplifier
from autotune.lowering.passes.form_copies import form_copies, plain_steps
from autotune.lowering.passes.instances import Templates
from autotune.utils.garbage import collection_paused

EXTENTS = {"t": 7, "i": 40, "j": 5}


def forms(space, variables, rng, count):
    """Return forms that grow out of one another by sums, quotients and remainders."""
    found = [space.var(v) for v in variables]
    while len(found) < count:
        a, b = (found[k] for k in rng.integers(0, len(found), 2))
        k = int(rng.integers(2, 12))
        made = (
            space.add(scale_affine(a, k), b),
            space.sub(a, b),
            space.floordiv(space.add(a, constant(k)), k + 1),
            space.floormod(space.add(scale_affine(a, 3), b), k),
        )
        found.append(made[rng.integers(0, len(made))])
    return found[len(variables) :]


@pytest.fixture
def variables():
    return {name: Var(name) for name in EXTENTS}


@pytest.mark.many_cases
@pytest.mark.parametrize("seed", range(8))
def test_a_copy_is_what_substitution_gives(variables, seed):
    rng = np.random.default_rng(seed)
    space = AffineSpace({v: (0, EXTENTS[n] - 1) for n, v in variables.items()})
    free = (variables["i"], variables["j"])
    for form in forms(space, list(variables.values()), rng, 60):
        copy = form_copies(space, form, free)
        for values in itertools.product(range(0, 40, 3), range(5)):
            moved, offset = copy(values)
            expected = space.substitute(form, dict(zip(free, map(constant, values), strict=True)))
            assert list(moved.terms.items()) == list(expected.terms.items())
            assert moved.const + offset == expected.const


def test_a_quotient_is_simplified_no_more_often_than_its_divisor(variables):
    t, i = variables["t"], variables["i"]
    space = AffineSpace({t: (0, 6), i: (0, 9999)})
    inner = space.floordiv(space.add(scale_affine(space.var(t), 2), space.var(i)), 3)
    form = space.floormod(space.add(scale_affine(space.var(t), 36), inner), 128)
    divided = []
    plain = space.floordiv, space.floormod
    space.floordiv = lambda a, c: divided.append(c) or plain[0](a, c)
    space.floormod = lambda a, c: divided.append(c) or plain[1](a, c)
    copy = form_copies(space, form, (i,))
    for value in range(10000):
        copy((value,))
    assert 0 < len(divided) < 3 * 128 * 5


def test_what_is_not_affine_is_left_to_substitution(variables):
    t, i = variables["t"], variables["i"]
    space = AffineSpace({t: (0, 6), i: (0, 39)})
    opaque = space.opaque(i * i, 0, 1600, frozenset((i,)))
    assert form_copies(space, space.add(opaque, space.var(t)), (i,)) is None
    assert form_copies(space, space.floordiv(opaque, 3), (i,)) is None
    assert form_copies(space, space.add(opaque, space.var(t)), (t,))((3,)) is not None


def test_a_form_without_the_variables_stays(variables):
    space = AffineSpace({v: (0, EXTENTS[n] - 1) for n, v in variables.items()})
    form = space.add(space.var(variables["t"]), constant(5))
    moved, offset = form_copies(space, form, (variables["i"],))((9,))
    assert Affine(moved.terms, offset).key == form.key


def test_steps_of_plain_forms_are_what_the_variables_add(variables):
    t, i, j = (variables[name] for name in "tij")
    space = AffineSpace({v: (0, EXTENTS[n] - 1) for n, v in variables.items()})
    form = space.add(scale_affine(space.var(j), 5), space.floordiv(space.var(t), 2))
    assert plain_steps(form, (i, j)) == [(j, 1, 5)]
    assert plain_steps(form, (t, j)) is None


def test_what_copied_statements_needs_no_collector_to_be_freed():
    buffer, t, i = Buffer("a", (64,), "int32"), Var("t"), Var("i")
    simplifier = Simplifier({t: (0, 7), i: (0, 7)})
    index = simplifier.simplify(i * 8 + t)
    body = If(t + i < 9, Store(buffer, (index,), Load(buffer, (index,)) + 1))
    with collection_paused():
        templates = Templates(simplifier, lambda loop: False)
        assert len(templates.copies(body, (i,))((3,))) == 1
        alive = weakref.ref(templates)
        del templates
        assert alive() is None
