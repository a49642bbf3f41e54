"""Strategies that choose the task of the next round: round-robin, or by expected gain."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.task_scheduler.progress import TaskProgress

Objective = Callable[[list[float]], float]
# A step relative to a cost, for the derivative of an objective.
_STEP = 1e-4
# A task this many rounds ahead of the others may leave a group whose best it cannot reach.
_AHEAD = 5
_GOLDEN = 1.618


class Allocation(Protocol):
    """A rule that hands out rounds."""

    def choose(self, tasks: Sequence[TaskProgress], open_to: Sequence[int]) -> int:
        """Return which of the tasks ``open_to``, of which there is at least one, is next."""
        ...

    def worth(self, tasks: Sequence[TaskProgress], index: int) -> float:
        """Return the expected gain of a round of a task, to be compared with those of others."""
        ...


@dataclass(frozen=True)
class RoundRobin:
    """Each task in turn: the one with the fewest rounds, the first of those."""

    def choose(self, tasks: Sequence[TaskProgress], open_to: Sequence[int]) -> int:
        """Return the task with the fewest rounds."""
        return min(open_to, key=lambda i: (tasks[i].rounds, i))

    def worth(self, tasks: Sequence[TaskProgress], index: int) -> float:
        """Return the same for all."""
        del tasks, index
        return 1.0


@dataclass(frozen=True)
class Gradient:
    """The task from which most is expected for the time of a round.

    The gain of another round of a task is estimated as in Ansor (Zheng et al., OSDI 2020, section
    6): ``alpha`` parts of how its best fell over the last rounds, and for the rest an optimist's
    guess, that all earlier rounds together gained as much as the next, bounded by the speed that
    similar tasks have reached. The objective's derivative turns that into gain for the network,
    and the task's own seconds a round into gain per second.

    Attributes:
        objective: seconds of the network from the best seconds of each task.
        alpha: weight of the past against the guess, from 0 to 1.
        beta: how much faster than its similar tasks a task may become.
        window: rounds over which the past is looked at.
    """

    objective: Objective
    alpha: float = 0.2
    beta: float = 2.0
    window: int = 3

    def choose(self, tasks: Sequence[TaskProgress], open_to: Sequence[int]) -> int:
        """Return the task that gains most per second; those without a round come first."""
        fresh = [i for i in open_to if not tasks[i].rounds or math.isinf(tasks[i].seconds)]
        if fresh:
            return min(fresh, key=lambda i: (tasks[i].rounds, i))
        gains = {i: self.worth(tasks, i) for i in open_to}
        return max(open_to, key=lambda i: (gains[i], -tasks[i].trials, -i))

    def worth(self, tasks: Sequence[TaskProgress], index: int) -> float:
        """Return the gain of the objective per second of measuring that a task promises.

        As long as a task has no kernel, or no round of its own (a log may know fewer trials than
        one has), nothing is worth more.
        """
        if math.isinf(tasks[index].seconds) or not tasks[index].rounds:
            return math.inf
        known = [task.seconds if math.isfinite(task.seconds) else 1.0 for task in tasks]
        slope = derivative(self.objective, known, index)
        if not slope > 0:
            return 0.0
        saved = slope * self.expected(tasks, index)
        return saved / max(tasks[index].round_s, 1e-3)

    def expected(self, tasks: Sequence[TaskProgress], index: int) -> float:
        """Return by how many seconds the best of a task may fall in another round."""
        task = tasks[index]
        past = 0.0
        if task.rounds > self.window and math.isfinite(task.best_by_round[-1 - self.window]):
            past = (task.best_by_round[-1 - self.window] - task.best_by_round[-1]) / self.window
        guess = task.seconds / task.rounds
        bound = self._bound(tasks, index)
        if bound is not None:
            guess = max(guess, task.seconds - bound)
        return self.alpha * past + (1 - self.alpha) * guess

    def _bound(self, tasks: Sequence[TaskProgress], index: int) -> float | None:
        """Return the seconds that similar tasks say are possible, or None if there are none."""
        own, flop = group_of(tasks[index].task), tasks[index].task.flop
        group = [t for i, t in enumerate(tasks) if i != index and group_of(t.task) == own]
        speeds = [t.task.flop / t.seconds for t in group if math.isfinite(t.seconds)]
        if not speeds or not flop:
            return None
        ahead = tasks[index].rounds - max(t.rounds for t in group) > _AHEAD
        if ahead and flop / tasks[index].seconds < max(speeds) / self.beta:
            return None  # it had its chance: it is not like the others
        return self.beta * flop / max(speeds)


def derivative(objective: Objective, costs: list[float], index: int) -> float:
    """Return how an objective grows with one cost."""
    step = _STEP * costs[index]
    less = [cost - step * (i == index) for i, cost in enumerate(costs)]
    return (objective(costs) - objective(less)) / step if step else 0.0


def group_of(task: SearchProblem) -> Hashable:
    """Return what similar tasks have in common: the graph, but for its shapes, and about the work.

    Where a graph's operations have the attribute ``auto_scheduler_task_scheduler_tag``, that
    stands for the graph, as in TVM.
    """
    ops = task.compute_dag.ops
    tags = [getattr(op, "attrs", {}).get("auto_scheduler_task_scheduler_tag", "") for op in ops]
    graph = "".join(map(str, tags)) or task.compute_dag.hash_key()
    return graph, int(math.log(task.flop + 1, _GOLDEN)), task.target
