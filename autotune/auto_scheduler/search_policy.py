"""Search policies: what proposes states of a task, under the names of TVM's scripts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from autotune.auto_scheduler.cost_model import CostModel, RandomModel, XGBModel
from autotune.auto_scheduler.errors import TuningOptionError
from autotune.auto_scheduler.measuring.measure_input import MeasureInput
from autotune.auto_scheduler.measuring.measure_options import TuningOptions
from autotune.auto_scheduler.measuring.program_measurer import ProgramMeasurer
from autotune.auto_scheduler.measuring.trial_callbacks import AdaptedCallback, EachTrial
from autotune.auto_scheduler.measuring.verbose import part_heading
from autotune.auto_scheduler.problem.search_problem import SearchProblem
from autotune.auto_scheduler.records.file import as_input
from autotune.auto_scheduler.records.resume import measured_states
from autotune.auto_scheduler.search.params import DEFAULT_PARAMS, Param, checked_params
from autotune.auto_scheduler.search.programs import sketches_of
from autotune.auto_scheduler.search.proposer import Proposer
from autotune.auto_scheduler.search.task_search import proposer_of
from autotune.auto_scheduler.search.tuner import SketchTuner
from autotune.auto_scheduler.sketch import PreloadCustomSketchRule, SketchRule, generate_sketches
from autotune.auto_scheduler.states.loop_state import StateObject
from autotune.auto_scheduler.states.recorded_state import RecordedState, recorded
from autotune.auto_scheduler.states.state import State
from autotune.errors import RecordError
from autotune.measure import MeasureInput as TrialInput
from autotune.measure import MeasureResult
from autotune.record.best import beaten_by
from autotune.tuner import callback as watchers
from autotune.tuner.loop.result import TuneResult
from autotune.utils.check import Check
from autotune.utils.garbage import collection_paused

logger = logging.getLogger("auto_scheduler")

InitCallback = Callable[["SearchPolicy"], None] | PreloadCustomSketchRule


class SearchPolicy:
    """Base of the policies.

    Args:
        task: what is searched.
        init_search_callbacks: called with the policy before it is used, such as
            `PreloadMeasuredStates`.

    Attributes:
        search_task: the same as ``task``, TVM's name.
        best: the fastest state that it knows of with its seconds, or None.
        result: what the last `search` found.
    """

    def __init__(
        self, task: SearchProblem, init_search_callbacks: Sequence[InitCallback] | None = None
    ) -> None:
        check = Check(TuningOptionError, type(self).__name__)
        check.kind("task", task, SearchProblem, "a SearchTask")
        calls = check.sequence("init_search_callbacks", init_search_callbacks or (), "a list")
        for each in calls:
            if not isinstance(each, PreloadCustomSketchRule):
                check.function("init_search_callbacks", each)
        self.task = self.search_task = task
        self.verbose = 1
        self.best: tuple[RecordedState, float] | None = None
        self.result: TuneResult | None = None
        self.custom_rules: list[SketchRule] = []
        self.measured: dict[str, float] = {}
        for each in calls:
            if isinstance(each, PreloadCustomSketchRule):
                self.custom_rules.append(each)
                print(f'Custom sketch rule "{each.name}" added.')
            else:
                each(self)

    def propose(self, count: int) -> list[RecordedState]:
        """Return up to ``count`` states to try next."""
        raise NotImplementedError(f"{type(self).__name__} must define propose(count)")

    def learn(self, pairs: Iterable[tuple[MeasureInput | TrialInput, MeasureResult]]) -> None:
        """Record what was measured."""
        for given, result in pairs:
            inp = as_input(given)
            seconds = result.seconds if result.ok else float("inf")
            self.measured[inp.key] = seconds
            if result.ok and (self.best is None or seconds < self.best[1]):
                self.best = (inp.config, seconds)

    def report_nothing_measured(self) -> None:
        """Log why nothing was measured, and what to do; nothing if anything was."""
        if self.measured:
            return
        limits = " ".join(str(self.task.hardware_params).split())
        logger.error(
            "%s: nothing was measured, as no program of it was found that keeps the limits of "
            "%s (%s); check the hardware_params of the task, or take "
            "fallback_schedule(tensors, target), which needs no search",
            self.task.workload_key, self.task.target, limits,
        )  # fmt: skip

    def set_verbose(self, verbose: int) -> None:
        """Say how much is printed."""
        self.verbose = verbose

    def continue_search_one_round(
        self, num_measure: int, measurer: ProgramMeasurer
    ) -> tuple[list[TrialInput], list[MeasureResult]]:
        """Propose, measure and learn once; return the inputs and the results.

        Both are empty if the policy has nothing left to propose.

        Args:
            num_measure: the most states to measure.
            measurer: measures them.
        """
        check = Check(TuningOptionError, "continue_search_one_round")
        count = check.whole("num_measure", num_measure, 1)
        check.kind("measurer", measurer, ProgramMeasurer, "a ProgramMeasurer")
        self._say(part_heading("Search"))
        states = self.propose(count)
        if not states:
            self._say("It seems all candidates in the search space have been measured.")
            return [], []
        self._say(part_heading("Measure"))
        inputs, results = measurer.measure(self.task, self, states)
        self._say(part_heading("Train cost model"))
        started = time.monotonic()
        self.learn(zip(inputs, results, strict=True))
        self._say(f"Time elapsed for training: {time.monotonic() - started:.2f} s")
        return inputs, results

    def _say(self, text: str) -> None:
        if self.verbose:
            print(text)

    def search(self, options: TuningOptions) -> TuneResult:
        """Propose, measure and learn, as templates are tuned: verified, raced, summed up."""
        self.set_verbose(options.verbose)
        tuner = SketchTuner(self, options.num_measures_per_round)
        calls: list[Callable[..., None]] = [
            AdaptedCallback(self, each) for each in options.measure_callbacks or ()
        ]
        if options.verbose == 1:
            calls.append(watchers.progress_bar(options.num_measure_trials))
        elif options.verbose:
            calls.append(EachTrial(self.task))
        try:
            result = tuner.tune(
                options.num_measure_trials,
                options.measure_option(),
                early_stopping=options.early_stopping,
                callbacks=calls,
            )
        finally:
            self.result = tuner.result
        best = tuner.best_measure_pair
        # The luckiest trial is not the fastest: what won a race stands above all that it beat.
        if best is not None and (
            self.best is None
            or self.best[0].key in beaten_by(best[1])
            or best[1].seconds <= self.best[1]
        ):
            config: Any = best[0].config
            self.best = (config, best[1].seconds)
        return result


class EmptyPolicy(SearchPolicy):
    """Always proposes the plain state, as long as that works; for tests."""

    def propose(self, count: int) -> list[RecordedState]:
        """Return the plain state."""
        plain = RecordedState(())
        works = self.measured.get(plain.key, 0.0) < float("inf")
        return [plain] if works and count else []


class SketchPolicy(SearchPolicy):
    """Searches the programs that sketch rules derive, by analytical and learned cost models.

    Args:
        task: what is searched.
        program_cost_model: `XGBModel` learns; with `RandomModel` candidates are drawn at random.
        params: overrides of `DEFAULT_PARAMS`.
        seed: equal seeds and equal measurements give equal proposals; drawn when None.
        verbose: how much is printed.
        init_search_callbacks: see `SearchPolicy`.
    """

    DEFAULT_PARAMS: ClassVar[dict[str, Param]] = DEFAULT_PARAMS

    def __init__(
        self,
        task: SearchProblem,
        program_cost_model: CostModel | None = None,
        params: dict[str, Param] | None = None,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Sequence[InitCallback] | None = None,
    ) -> None:
        check = Check(TuningOptionError, "SketchPolicy")
        check.kind("params", params or {}, dict, "overrides of DEFAULT_PARAMS by name")
        if seed is not None:
            check.whole("seed", seed, 0)
        if program_cost_model is not None:
            check.kind("program_cost_model", program_cost_model, CostModel, "a cost model")
        self.params = {**self.DEFAULT_PARAMS, **checked_params(params or {})}
        self.program_cost_model = (
            RandomModel() if program_cost_model is None else program_cost_model
        )
        self.rng = np.random.default_rng(seed)
        super().__init__(task, init_search_callbacks)
        self.verbose = verbose

    @cached_property
    def sketches(self) -> list[StateObject]:
        """The sketches of the task."""
        return sketches_of(self.task, self.params, self.custom_rules, self)

    @cached_property
    @collection_paused()
    def proposer(self) -> Proposer:
        """The search over rows; it has learned what the cost model knows of the task."""
        model = self.program_cost_model
        model.recall(self.task)
        known = model.trials(self.task)
        found = proposer_of(
            self.task, self.sketches, self.params, self.rng, known, model.ranks, model.shared
        )
        model.attend(self.task, found)
        return found

    def begin(self) -> None:
        """Let the model learn what is known of the task now, so that it teaches others."""
        logger.debug("%s: %d programs", self.task, len(self.proposer.programs))

    def propose(self, count: int) -> list[RecordedState]:
        """Return up to ``count`` states that were not measured."""
        found: list[RecordedState] = []
        for _ in range(1 + int(self.params["retry_search_one_round_on_empty"])):
            chosen = self._chosen if self.program_cost_model.chooses else self.proposer.propose
            found = [each for each in chosen(count) if each.key not in self.measured]
            if found:
                break
        return found

    def _chosen(self, count: int) -> list[RecordedState]:
        """Return the states that a script's model ranks first, with a few drawn at random."""
        drawn = self.sample_initial_population()
        liked = self.evolutionary_search(drawn, count + len(self.measured))
        found = {each.key: each for each in map(recorded, [*liked, *drawn])}
        new = [each for key, each in found.items() if key not in self.measured]
        chance = min(round(float(self.params["eps_greedy"]) * count), len(new) - count)
        if chance <= 0:
            return new[:count]
        return new[: count - chance] + new[-chance:]

    def learn(self, pairs: Iterable[tuple[MeasureInput | TrialInput, MeasureResult]]) -> None:
        """Record what was measured, and fit the model."""
        new = [(as_input(inp), result) for inp, result in pairs]
        super().learn(new)
        inputs, results = [inp for inp, _ in new], [result for _, result in new]
        ready = "proposer" in self.__dict__
        self.program_cost_model.update(inputs, results)
        if ready:
            rows = [
                (inp.config.transform_steps, res.seconds if res.ok else float("inf"))
                for inp, res in new
            ]
            self.proposer.learn(rows)

    # TVM's names for the parts.

    def generate_sketches(self, print_for_debug: bool = False) -> list[State]:
        """Return the sketches of TVM's rules: states in which only numbers are open."""
        found = generate_sketches(self.task, self.params, self.custom_rules, self)
        if print_for_debug:
            for i, state in enumerate(found):
                print("=" * 20 + f" {i} " + "=" * 20)
                print(state)
        return found

    def sample_initial_population(self, pop_size: int | None = None) -> list[State]:
        """Return states that keep the limits of the device, drawn at random."""
        if pop_size is not None:
            Check(TuningOptionError, "sample_initial_population").whole("pop_size", pop_size, 1)
        count = pop_size or int(self.params["sample_init_min_population"])
        return [self._state(each) for each in self.proposer.sample(count)]

    def evolutionary_search(self, init_populations: Sequence[State], out_size: int) -> list[State]:
        """Return states that the cost model likes best, bred from some; nothing is measured.

        Args:
            init_populations: states of this policy, such as `sample_initial_population` gives.
            out_size: how many are returned at most.
        """
        check = Check(TuningOptionError, "evolutionary_search")
        check.whole("out_size", out_size, 1)
        for each in check.sequence("init_populations", init_populations, "a list of states"):
            check.kind("init_populations", each, (State, StateObject), "a list of states")
        steps = [tuple(each.transform_steps) for each in init_populations]
        found: dict[str, tuple[float, RecordedState]] = {}
        for _ in range(1 + int(self.params["evolutionary_search_num_iters"])):
            states = [self._state(each) for each in self.proposer.bred(steps)]
            scores = self.program_cost_model.predict(self.task, states)
            for state, score in zip(states, scores, strict=True):
                candidate = RecordedState(tuple(state.transform_steps))
                found[candidate.key] = (float(score), candidate)
            best = sorted(found.values(), key=lambda each: -each[0])[: max(out_size, 64)]
            steps = [candidate.transform_steps for _, candidate in best]
        return [self._state(RecordedState(each)) for each in steps[:out_size]]

    def _state(self, candidate: RecordedState) -> State:
        dag = self.task.compute_dag
        return State(dag.init_state.after(candidate.transform_steps), dag)


class PreloadMeasuredStates:
    """Lets a policy know the trials of a log: they are learned from, and not measured again.

    Args:
        filename: the log.
    """

    def __init__(self, filename: str = "auto_scheduler_tuning.json") -> None:
        self.filename = Check(RecordError, "PreloadMeasuredStates").path("filename", filename)

    def __call__(self, policy: SearchPolicy) -> None:
        """Read the log."""
        self.load(policy)

    def load(self, policy: SearchPolicy) -> list[tuple[MeasureInput, MeasureResult]]:
        """Read the log, and return the trials that the policy knows now."""
        found = measured_states(policy.task, self.filename)
        policy.learn(found)
        key = policy.task.workload_key
        if found:
            print(
                f"SearchPolicy: Loaded {len({inp.key for inp, _ in found})} measurement records "
                f"from {self.filename} for {key}"
            )
        else:
            print(f"SearchPolicy: No measurement records found in {self.filename} for {key}")
        return found


__all__ = [
    "EmptyPolicy",
    "PreloadMeasuredStates",
    "SearchPolicy",
    "SketchPolicy",
    "XGBModel",
]
