"""Rules of sketches that a user gives to the search."""

import pytest

from autotune.auto_scheduler import State
from autotune.auto_scheduler.sketch import PreloadCustomSketchRule
from autotune.errors import TunerError
from tests.auto_scheduler.graphs import matmul
from tests.auto_scheduler.sketch.test_sketches import sketches


def split_in_three():
    """A rule that replaces all others for stage C, by two sketches."""

    def condition(policy, state, stage_id):
        wanted = policy.search_task.compute_dag is state.dag and state.stages[stage_id].name == "C"
        return PreloadCustomSketchRule.APPLY_AND_SKIP_REST if wanted else 0

    def derive(policy, state, stage_id):
        first = State(state, policy.search_task.compute_dag)
        c = first.stage_ops[stage_id]
        first.split(c, first[c].iters[0], [8, 2])
        second = first.copy()
        second.split(c, second[c].iters[3], [8, 4])
        return [[first.state_object, stage_id - 1], [second, stage_id - 1]]

    return PreloadCustomSketchRule(condition, derive, "SplitInThree")


def test_a_custom_rule_comes_first():
    for target in ("llvm", "cuda"):
        found = sketches(matmul(512, 512, 512), target, custom_rules=[split_in_three()])
        products = [next(s for s in state.stages if s.name == "C") for state in found]
        assert [[loop.extent for loop in stage.iters] for stage in products] == [
            [32, 8, 2, 512, 512],
            [32, 8, 2, 16, 8, 4, 512],
        ]


@pytest.mark.parametrize(
    ("condition", "derive", "words"),
    [
        (lambda *_: "yes", lambda *_: [], "the condition must return PASS"),
        (lambda *_: 2, lambda *_: [7], "must return"),
        (lambda *_: 2, lambda *_: [[None, 0]], "must return"),
        (lambda *_: 2, lambda *_: 7, r"must return \[\[state, next stage\], ...\], got 7"),
        (lambda *_: 2, lambda p, s, i: [[s, i]], "no end after"),
        (lambda *_: 1, lambda p, s, i: [[s, i], [s, i]], "states are being derived"),
    ],
)
def test_a_custom_rule_that_is_wrong_is_named(condition, derive, words):
    rule = PreloadCustomSketchRule(condition, derive, "Mine")
    with pytest.raises(TunerError, match=words):
        sketches(matmul(64, 64, 64), "cuda", custom_rules=[rule])
