"""States after steps that begin alike."""

from autotune.auto_scheduler import ComputeDAG
from autotune.auto_scheduler.states.loop_state import plain_state
from autotune.auto_scheduler.states.step_trie import StepTrie
from autotune.auto_scheduler.transform_steps import FuseStep, SplitStep
from tests.auto_scheduler.graphs import matmul

SPLIT = SplitStep(2, 0, 512, (None, 8))
FUSED = FuseStep(2, (0, 1))


def test_a_beginning_is_taken_once_and_ends_differ():
    dag = ComputeDAG(matmul(512, 512, 512)).init_state.dag
    start = StepTrie(plain_state(dag))
    assert start.take(SPLIT) is start.take(SplitStep(2, 0, 512, (None, 8)))
    for steps in ([SPLIT, FUSED], [SPLIT, SplitStep(2, 3, 512, (4,))], [FUSED], []):
        found, alone = start.after(steps), plain_state(dag).after(steps)
        assert found == alone
        assert str(found) == str(alone)
