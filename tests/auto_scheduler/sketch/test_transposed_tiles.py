"""Operands whose neighbours in memory are steps of a sum are transposed on the way to tiles."""

import json
import re

import numpy as np
import pytest

from autotune import te, topi
from autotune.auto_scheduler import ComputeDAG, SearchTask, SketchPolicy
from autotune.auto_scheduler.search.programs import programs_of, sketches_of
from autotune.auto_scheduler.search.space.sampler import RowSampler
from autotune.auto_scheduler.sketch import transposed_tiles
from autotune.auto_scheduler.states.loop_state import plain_state
from autotune.auto_scheduler.states.loops import ComputeAtKind
from autotune.auto_scheduler.transform_steps import step_from_row
from tests.auto_scheduler.running import assert_states_compute_the_same, kernel_of

PARAMS = SketchPolicy.DEFAULT_PARAMS


def product(m, n, k, first="mk", second="kn", batch=(), dtype="float32"):
    """Return a product whose operands are stored by the dimensions that are named."""
    sizes = {"m": m, "n": n, "k": k}
    a = te.placeholder((*batch, *(sizes[each] for each in first)), dtype, "a")
    b = te.placeholder((*batch, *(sizes[each] for each in second)), dtype, "b")
    step = te.reduce_axis((0, k), "k")

    def value(*axes):
        *outer, i, j = axes
        at = {"m": i, "n": j, "k": step}
        x, y = (t(*outer, *(at[e] for e in names)) for t, names in ((a, first), (b, second)))
        return te.sum(x * y, axis=[step])

    return [a, b, te.compute((*batch, m, n), value, "c")]


def task_of(tensors, target="cuda -arch=sm_90"):
    return SearchTask(compute_dag=ComputeDAG(tensors), target=target)


def transposed(state):
    """Return the operands that are transposed, with a star where they are stored so."""
    views = {stage.name: stage.compute_at for stage in state.stages}
    return tuple(
        name.partition(".")[0] + ("" if place is ComputeAtKind.INLINED else "*")
        for name, place in views.items()
        if name.endswith(".permuted")
    )


def states_of(task, count):
    """Return some random states of each program that transposes tiles."""
    found = []
    for model in programs_of(task, sketches_of(task, PARAMS), PARAMS):
        if transposed(model.program.state):
            rows = RowSampler(model.program, model.limits(), np.random.default_rng(0)).draw(200)
            candidates = [model.program.candidate(row) for row in rows[:count]]
            dag = task.compute_dag.init_state.dag
            found += [plain_state(dag).after(each.transform_steps) for each in candidates]
    return found


@pytest.mark.parametrize(
    ("layouts", "expected"),
    [
        (("mk", "kn"), {(), ("a",), ("a*",)}),
        (("km", "kn"), {()}),
        (("km", "nk"), {(), ("b",), ("b*",)}),
        (("mk", "nk"), {(*a, *b) for a in ((), ("a",), ("a*",)) for b in ((), ("b",), ("b*",))}),
    ],
)
def test_operands_read_along_the_sum_are_transposed_by_tiles_or_before(layouts, expected):
    sketches = sketches_of(task_of(product(1024, 1024, 1024, *layouts)), PARAMS)
    assert {transposed(each) for each in sketches} == expected


@pytest.mark.parametrize("rows", [512, 1026])
def test_operands_of_few_products_or_odd_rows_are_not_stored_first(rows):
    sketches = sketches_of(task_of(product(rows, 1024, 1024)), PARAMS)
    assert {transposed(each) for each in sketches} == {(), ("a",)}


def chain(count, size):
    """Return a chain of products, each by a matrix whose rows are columns."""
    first, *others = (te.placeholder((size, size), name=f"a{i}") for i in range(count + 1))
    result = first
    for other in others:
        result = topi.nn.matmul(result, other, transpose_b=True)
    return [first, *others, result]


def test_small_products_are_copied_as_they_lie_so_that_several_have_few_sketches():
    assert len(sketches_of(task_of(chain(3, 64)), PARAMS)) == 1
    assert any(map(transposed, sketches_of(task_of(product(256, 256, 256)), PARAMS)))


def copies(state):
    """Return how operands that lie along sums are copied, by the names of what they are of."""
    return {each.rstrip("*"): "stored" if each.endswith("*") else "tiles" for each in
            transposed(state)}  # fmt: skip


def test_several_products_are_copied_alike_so_that_sketches_do_not_multiply():
    one, three = (sketches_of(task_of(chain(count, 2048)), PARAMS) for count in (1, 3))
    assert len(three) == len(one) == 9
    for sketch in three:
        found, weights = copies(sketch), ("a1", "a2", "a3")
        assert len({found.get(each) for each in weights}) == 1
        others = [each for each in transposed(sketch) if each.rstrip("*") not in weights]
        assert len(others) in (0, 3)


def test_where_an_operand_cannot_be_stored_as_that_of_another_product_its_tiles_are_transposed():
    a, b, c = (te.placeholder(shape, name=name) for name, shape in
               (("a", (2048, 2048)), ("b", (2050, 2048)), ("c", (2048, 2050))))  # fmt: skip
    last = topi.nn.matmul(topi.nn.matmul(a, b, transpose_b=True), c, transpose_b=True)
    found = [copies(each) for each in sketches_of(task_of([a, b, c, last]), PARAMS)]
    assert {(each.get("b"), each.get("c")) for each in found} == {
        (None, None), ("tiles", "tiles"), ("tiles", "stored"),
    }  # fmt: skip


def test_records_say_that_tiles_are_of_a_permuted_view_that_is_stored_nowhere():
    sketches = sketches_of(task_of(product(512, 512, 512)), PARAMS)
    (state,) = [each for each in sketches if transposed(each) == ("a",)]
    assert [each.name for each in state.stages] == [
        "a", "a.permuted", "a.permuted.shared", "b", "b.shared", "c.local", "c"
    ]  # fmt: skip
    assert [each.to_row() for each in state.transform_steps[-4:]] == [
        ["CHR", 0, "permuted 1 0", [3]],
        ["CHR", 1, "shared", [4]],
        ["CA", 2, 5, 6],
        ["CI", 1],
    ]
    assert state.attach[2] == (5, 6)


def test_operands_of_two_bytes_are_copied_as_they_lie():
    sketches = sketches_of(task_of(product(1024, 1024, 1024, dtype="float16")), PARAMS)
    assert not any(map(transposed, sketches))


def test_no_tiles_are_transposed_on_a_cpu():
    sketches = sketches_of(task_of(product(512, 512, 512), "llvm"), PARAMS)
    assert not any(map(transposed, sketches))


@pytest.mark.many_cases
@pytest.mark.parametrize(
    "tensors",
    [
        product(64, 64, 32),
        product(24, 36, 20),
        product(64, 32, 32, "mk", "nk"),
        product(32, 32, 48, "mk", "nk", batch=(3,)),
    ],
    ids=["whole", "cut", "both", "batch"],
)
def test_transposed_operands_compute_what_the_definition_says(tensors, tmp_path, monkeypatch):
    for least in ("_SOME_TERMS", "_MANY_TERMS"):
        monkeypatch.setattr(transposed_tiles, least, 0)
    task = task_of(tensors)
    states = states_of(task, 4)
    assert states
    assert_states_compute_the_same(task.compute_dag, states, "cuda", tmp_path)


def test_a_warp_copies_whole_sectors_to_different_banks():
    task = task_of(product(512, 512, 512))
    states = [each for each in states_of(task, 64) if transposed(each) == ("a",)]
    sources = [kernel_of(task.compute_dag, each, "cuda", "k").source for each in states]
    pattern = r"\(a_permuted_shared(?: \+ [^,+]*)? \+ \(tx & 7\) \* (\d+) \+ \(tx >> 3\)"
    pitches = {int(each) for text in sources for each in re.findall(pattern, text)}
    wide = {each for each in pitches if each >= 32}
    assert wide
    for pitch in wide:
        banks = {(lane % 8 * pitch + lane // 8) % 32 for lane in range(32)}
        assert len(banks) == 32


def test_steps_are_written_and_read():
    task = task_of(product(512, 512, 512))
    state = states_of(task, 1)[0]
    rows = json.loads(json.dumps([each.to_row() for each in state.transform_steps]))
    steps = [step_from_row(row) for row in rows]
    assert plain_state(task.compute_dag.init_state.dag).after(steps) == state
