"""Extents and values of split and fused axes: together the loops visit every index once."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from autotune import te
from autotune.ir import IntImm, const, substitute
from autotune.te.relation import overruns, pass_down, pass_up, split_extents

MOVES = st.lists(
    st.tuples(st.sampled_from(["split", "nparts", "fuse"]), st.integers(0, 5), st.integers(1, 5)),
    max_size=4,
)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 7), st.integers(1, 5), MOVES)
def test_loops_under_their_guards_visit_every_index_exactly_once(n, m, moves):
    c = te.compute((n, m), lambda i, j: i + j, name="C")
    stage = te.create_schedule(c.op)[c]
    for kind, at, size in moves:
        leaves = stage.leaf_iter_vars
        at %= len(leaves)
        if kind == "fuse":
            stage.fuse(*leaves[at : at + 2])
        else:
            stage.split(leaves[at], **{"factor" if kind == "split" else kind: size})
    extents = {axis: axis.dom.extent.value for axis in c.op.axis}
    pass_down(stage.relations, extents)
    leaves = stage.leaf_iter_vars
    visited = []
    values = {leaf: leaf.var for leaf in leaves}
    pass_up(stage.relations, extents, values)
    guards = [
        (values[split.parent], extents[split.parent])
        for split in overruns(stage.relations, extents)
    ]
    for point in itertools.product(*[range(extents[leaf]) for leaf in leaves]):
        at = {leaf.var: const(x) for leaf, x in zip(leaves, point, strict=True)}
        if all(_value(expr, at) < limit for expr, limit in guards):
            visited.append(tuple(_value(values[axis], at) for axis in c.op.axis))
    assert sorted(visited) == list(itertools.product(range(n), range(m)))


def _value(expr, at):
    result = substitute(expr, at)
    assert isinstance(result, IntImm)
    return result.value


def test_parts_of_a_split_never_exceed_the_axis():
    c = te.compute((6,), lambda i: i, name="C")
    for arguments, expected in [
        ({"factor": 4}, (2, 4)),
        ({"factor": 100}, (1, 6)),
        ({"nparts": 4}, (4, 2)),
        ({"nparts": 100}, (6, 1)),
    ]:
        stage = te.create_schedule(c.op)[c]
        stage.split(c.op.axis[0], **arguments)
        assert split_extents(stage.relations[0], 6) == expected
