"""The arms of the allocation: each way to tune a function, with a run of trials of its own.

The terms are those of multi-armed bandits: an arm is pulled for a round of trials.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from autotune.auto_scheduler import RecordToFile, SketchPolicy, SketchTuner, XGBModel
from autotune.errors import AutotuneError
from autotune.graph.fuse import FusedFunction
from autotune.measure import MeasureInput, Session
from autotune.network.choice import RULE, ByTemplate, Choice, shipped
from autotune.network.choice_json import search_task
from autotune.network.implementations import FunctionOffer, offers_of
from autotune.network.tuning.tuning_log import NetworkLog
from autotune.target import Target
from autotune.task import ConfigEntity
from autotune.tuner import callback
from autotune.tuner.auto_tuner import AutoTuner
from autotune.tuner.loop.run import Run
from autotune.tuner.loop.stop import Stop
from autotune.workload import Workload

logger = logging.getLogger("autotune")

# The budget is in seconds: this many trials are never made.
_NO_END = 1 << 30
# The best of a relative that are tried before each round; cousins whose best is in the first one.
_BORROWED, _COUSINS = 4, 8


@dataclass(eq=False)
class Arm:
    """One way to compute a function that is being tuned.

    Attributes:
        name: of the template, or of the auto-scheduler.
        run: its trials; what they found.
        relatives: arms of other functions whose candidates are of the same knobs, such as those
            of a layer with another epilogue: each tries what was best of the others.
        cousins: arms of the same template for layers of other extents, the nearest in the network
            first: what is best of one is a fair first guess for another, where its knobs offer it.
        offer: what the template does of the function; None for the auto-scheduler.
        round_s: seconds that its last rounds took, a moving average; infinite before the first.
        best_by_round: seconds of its best after each round.
        exhausted: whether nothing is left to try.
        busy: whether a round is under way.
    """

    name: str
    run: Run
    offer: FunctionOffer | None = None
    relatives: list[Arm] = field(default_factory=list)
    cousins: list[Arm] = field(default_factory=list)
    round_s: float = math.inf
    best_by_round: list[float] = field(default_factory=list)
    exhausted: bool = False
    busy: bool = False

    @property
    def seconds(self) -> float:
        """Seconds of the best so far; infinite where nothing worked yet."""
        best = self.run.scoreboard.best
        return best[1].seconds if best is not None else math.inf

    @property
    def floor_s(self) -> float:
        """Seconds at the device's ceiling, by the record of the best; 0 where that is unknown."""
        best = self.run.scoreboard.best
        return best[1].seconds * (best[1].evidence.roofline or 0.0) if best is not None else 0.0

    @property
    def trials(self) -> int:
        """Trials so far, those of earlier runs included."""
        return self.run.measured

    def advance(
        self, session: Session, trials: int, timeout_s: float, clock: Callable[[], float]
    ) -> int:
        """Measure more trials, for at most this many seconds; return their number."""
        begun = clock()
        self._suggest()
        left_s = max(0.0, timeout_s - (clock() - begun))
        made = self.run.advance(session, trials, timeout_s=left_s)
        took = clock() - begun
        self.round_s = took if math.isinf(self.round_s) else (self.round_s + took) / 2
        self.best_by_round.append(self.seconds)
        self.exhausted = not made and self.run.over
        return len(made)

    def _suggest(self) -> None:
        """Let what a template takes untuned be tried first, and what is best elsewhere."""
        if self.offer is None:
            return
        if not self.best_by_round:
            self.run.suggest(
                [each for each in (shipped(self.offer), self.offer.task.default()) if each]
            )
        for other in self.relatives:
            self.run.suggest(self._borrowed(other, _BORROWED))
        seen = [other for other in self.cousins if other.best_by_round]
        for other in seen[:_COUSINS] if not self.best_by_round else ():
            self.run.suggest(self._borrowed(other, 1))

    def _borrowed(self, other: Arm, most: int) -> list[ConfigEntity]:
        """Return the best of another arm that are points of the own space."""
        assert self.offer is not None
        found = []
        for candidate in other.run.best_candidates(most):
            # Spaces of other extents number their points differently.
            choices = ConfigEntity(0, None, ConfigEntity.of(candidate).recorded)
            with suppress(AutotuneError):  # this function does not allow what theirs did
                found.append(self.offer.task.own(choices))
        return found


@dataclass(eq=False)
class Tuned:
    """A function of the network, and all the ways in which it is tuned.

    Attributes:
        function: one of those that share a kernel.
        calls: how many do.
        arms: the ways.
        untuned_s: seconds before any tuning, in the network; infinite where that is unknown.
        untuned_arm: the way in which it is computed then; None where that is by rule.
    """

    function: FusedFunction
    calls: int
    arms: list[Arm]
    untuned_s: float = math.inf
    untuned_arm: Arm | None = None

    @property
    def seconds(self) -> float:
        """Seconds of the best kernel of all ways, tuned or not; infinite if there is none."""
        best = self.tried_s
        # Trials find other caches than kernels of a network: where there is one, it counts alone.
        tried = self.untuned_arm is not None and math.isfinite(self.untuned_arm.seconds)
        return best if tried else min(best, self.untuned_s)

    @property
    def tried_s(self) -> float:
        """Seconds of the best trial of any way; infinite if there is none."""
        return min((arm.seconds for arm in self.arms), default=math.inf)

    @property
    def floor_s(self) -> float:
        """Seconds that no kernel of the best way can beat; 0 where that is unknown."""
        best = min(self.arms, key=lambda arm: arm.seconds, default=None)
        return best.floor_s if best is not None else 0.0

    @property
    def trials(self) -> int:
        """Trials of all ways."""
        return sum(arm.trials for arm in self.arms)


def tuned_functions(
    functions: Sequence[FusedFunction],
    target: Target,
    log: NetworkLog,
    seed: int | None,
    untuned: Mapping[str, tuple[Choice, float]] | None = None,
) -> list[Tuned]:
    """Return what there is to tune, with what a log knows of it, in the order of running.

    Args:
        functions: of a network.
        target: what to tune for.
        log: of earlier tuning; trials are added to it.
        seed: makes proposals repeatable.
        untuned: how each function is computed before any tuning, by its signature, and the
            seconds of all its calls together.
    """
    before = untuned or {}
    calls: dict[str, int] = {}
    first: dict[str, FusedFunction] = {}
    for function in functions:
        if not function.is_free and function.has_reduction:
            calls[function.signature] = calls.get(function.signature, 0) + 1
            first.setdefault(function.signature, function)
    tuned = []
    model = XGBModel(seed=seed)  # what one function shows is learned for all
    for signature, function in first.items():
        arms = _arms(function, target, log, seed, model)
        choice, seconds = before.get(signature, (RULE, math.inf))
        task = choice.workload if isinstance(choice, ByTemplate) else None
        same = [arm for arm in arms if arm.offer is not None and arm.offer.task == task]
        one = Tuned(function, calls[signature], arms, seconds / calls[signature])
        one.untuned_arm = same[0] if same else None
        tuned.append(one)
    _relate([arm for each in tuned for arm in each.arms])
    return tuned


def _relate(arms: Sequence[Arm]) -> None:
    """Tell arms of those whose templates compute the same but for what follows the operator.

    And of those of the same template for other layers.
    """
    families: dict[tuple[object, ...], list[Arm]] = {}
    for arm in arms:
        for workload in dict.fromkeys(arm.offer.known_as if arm.offer else ()):
            families.setdefault((arm.name, workload), []).append(arm)
    for family in families.values():
        for arm in family:
            arm.relatives += [
                each for each in family if each is not arm and each not in arm.relatives
            ]
    for here, arm in enumerate(arms):
        if arm.offer is None:
            continue
        known = (arm, *arm.relatives)
        nearest = sorted(enumerate(arms), key=lambda placed: abs(placed[0] - here))
        arm.cousins += [each for _, each in nearest if each.name == arm.name and each not in known]


def _arms(
    function: FusedFunction, target: Target, log: NetworkLog, seed: int | None, model: XGBModel
) -> list[Arm]:
    arms = []
    for offer in offers_of(function, target):
        tuner = AutoTuner(offer.task, seed)
        run = tuner.new_run(Stop(_NO_END), [callback.log_to_file(log.path)])
        _resume(run, offer.task, log.templates)
        arms.append(Arm(offer.task.name, run, offer))
    if function.parts:  # no schedule is searched for two results
        return arms
    try:
        task = search_task(function, target)
    except AutotuneError as error:
        logger.warning("%s is not searched for by the auto-scheduler: %s", function.name, error)
        return arms
    sketch = SketchTuner(SketchPolicy(task, model, seed=seed, verbose=0))
    run = sketch.new_run(Stop(_NO_END), [RecordToFile(log.path)])
    states: list[object] = [
        (MeasureInput(task.target, task, inp.config), result)
        for inp, result in log.states
        if inp.task.workload_key == task.workload_key
        and inp.target.kind == task.target.kind
        and task.times_alike(inp.task.layout_rewrite_option)
    ]
    _resume(run, task, states)
    arms.append(Arm("auto-scheduler", run))
    return arms


def _resume(run: Run, task: Workload, pairs: Sequence[Any]) -> None:
    mine = [pair for pair in pairs if pair[0].task == task]
    if mine:
        run.resume(mine)
