"""Tuning a whole network: one budget of seconds for all of its functions."""

from __future__ import annotations

import logging
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from autotune.errors import AutotuneError, GraphError, RecordError
from autotune.graph import Graph, digest
from autotune.graph.fuse import FusedFunction
from autotune.graph.passes import OWN
from autotune.measure import Session, measure_option
from autotune.network.choice import RULE, ByRule, ByTemplate, Choice, same_for
from autotune.network.compile import compile_network
from autotune.network.compiled import CompiledNetwork, NetworkInstance
from autotune.network.history import History
from autotune.network.layouts import pipeline_in, race_layouts
from autotune.network.tuning.arms import Arm, Tuned, tuned_functions
from autotune.network.tuning.budget import Budget
from autotune.network.tuning.program_race import (
    LEAST_ROUNDS,
    FunctionRace,
    race,
    seconds_of_functions,
)
from autotune.network.tuning.rounds import Rounds
from autotune.network.tuning.tuning_log import NetworkLog, write_note
from autotune.network.tuning.variants import Variants
from autotune.network.tuning.whole_race import Compared, compare_in_turns, race_whole
from autotune.runtime.arrays.memory import get_ready
from autotune.runtime.device import Device, device
from autotune.target import Target
from autotune.utils import environment
from autotune.utils.check import Check

logger = logging.getLogger("autotune")

# Runs of the untuned network by which its functions are judged; how many times as long as that,
# and compiling it, the same is expected to take for finalists.
_UNTUNED_RUNS, _AS_LONG = 5, 2
# Finalists of each way of a function, and of a function in all.
_OF_EACH_WAY, _FINALISTS = 3, 4


@dataclass(frozen=True)
class Progress:
    """The progress of tuning, reported after each round.

    Attributes:
        elapsed_s: seconds since it began, those of earlier calls included.
        budget_s: of how many.
        function, way: what the round was of.
        trials: made so far, of all functions.
        seconds: the sum of the best trials of all functions, by how often each runs; infinite as
            long as one has none.
        best_s: of the best trial of the function; infinite as long as none worked.
    """

    elapsed_s: float
    budget_s: float
    function: str
    way: str
    trials: int
    seconds: float
    best_s: float

    def __str__(self) -> str:
        whole = f"{self.seconds * 1e6:.0f} us" if math.isfinite(self.seconds) else "open"
        best = f"{self.best_s * 1e6:.1f} us" if math.isfinite(self.best_s) else "nothing yet"
        return (
            f"{self.elapsed_s:6.0f} of {self.budget_s:.0f} s, {self.trials:5d} trials, network "
            f"{whole}; {self.function} by {self.way}: {best}"
        )


def to_stderr(progress: Progress) -> None:
    """Print a line for each round."""
    print(progress, file=sys.stderr, flush=True)


def tune_network(
    network: object,
    params: Mapping[str, object] | None,
    target: Target | str,
    *,
    budget_s: float,
    log: str | os.PathLike[str],
    option: Mapping[str, object] | None = None,
    on_round: Callable[[Progress], None] | None = to_stderr,
    seed: int | None = None,
) -> CompiledNetwork:
    """Tune the functions of a network within a time budget; return it compiled with the best.

    The time is divided among all functions, and among all ways to compute each (by templates and
    by the auto-scheduler), so that the network gains most per second. At the end the best kernels
    of each function race inside the whole network. The log holds the winners, so that
    ``compile_network(..., choose=History(log).choose)`` gives the same kernels each time. On a GPU
    the layout of NHWC images is raced first; `History.pipeline` returns the winner.

    Each trial is logged as soon as it ends. If the call is stopped in any way, the same call
    continues: seconds that were spent count, and when none are left it only compiles. An interrupt
    ends tuning early and returns the network with the fastest trials so far, without a race. In
    frozen mode nothing is tuned: the network is compiled with the locked kernels.

    Args:
        network: a graph, or a module or function of `autotune.tvm.relay`.
        params: values of its parameters, by name.
        target: the target, whose device must be present.
        budget_s: seconds in all, of which the last tenths are for the race. They are exceeded by
            at most a second or so, unless compiling the network alone takes longer.
        log: a log of this network, or of several.
        option: builder and runner, see `measure_option`, or a `Session`; by default this machine.
        on_round: called after each round; by default a line is printed.
        seed: makes proposals repeatable.

    Raises:
        GraphError: the network cannot be computed, or an argument is invalid.
        RecordError: the log cannot be written.
    """
    check = Check(GraphError, "tune_network")
    check.number("budget_s", budget_s, least=0)
    check.path("log", log)
    if on_round is not None:
        check.function("on_round", on_round)
    chosen, budget = Target(target), Budget(float(budget_s))
    get_ready(device(chosen))
    bound = graph_of(network).bind({} if params is None else params)
    if environment.frozen():
        told = pipeline_in(NetworkLog.read(log).notes, bound, chosen)
        return compile_network(bound, chosen, told or OWN)
    known = NetworkLog.read(log)
    try:
        graph = race_layouts(bound, chosen, known, budget.left_s() > 0)
    except KeyboardInterrupt:
        logger.warning("interrupted in the race of layouts; the network is compiled untuned")
        return compile_network(bound, chosen, choose=History(known).choose)
    tuning = _Tuning(graph, chosen, known, budget, on_round)
    if budget.left_s() <= 0 or not tuning.tune(option, seed):
        return tuning.compiled(History(log))
    return tuning.raced(History(log))


def graph_of(network: object) -> Graph:
    """Return the graph that something holds.

    Raises:
        GraphError: it holds none.
    """
    for held in (network, getattr(network, "functions", {}).get("main")):
        graph = held if isinstance(held, Graph) else getattr(held, "graph", None)
        if isinstance(graph, Graph):
            return graph
    Check(GraphError, "tune_network").refuse(
        "network", "a graph, or a module or function of autotune.tvm.relay", network
    )


class _Tuning:
    """One call of `tune_network`."""

    def __init__(
        self,
        graph: Graph,
        target: Target,
        log: NetworkLog,
        budget: Budget,
        on_round: Callable[[Progress], None] | None,
    ) -> None:
        self.variants = Variants(graph, target)
        self.target = target
        self.log = log
        self.name = digest(graph)
        self.budget = budget
        self.on_round = on_round
        self._untuned_run_s = 0.0
        # First parts by the signatures of joint functions, and how they are computed by their own.
        self._firsts: dict[str, FusedFunction] = {}
        self._apart: dict[str, Choice] = {}
        budget.before_s = log.spent_s(self.name, target)

    # ---- trials

    def tune(self, option: object, seed: int | None) -> bool:
        """Make trials until their time is over; return whether the best of them are to race."""
        given = measure_option("local", "local") if option is None else option
        session = Session.of(given)
        try:
            self._get_ready(session)
            untuned_s = self._untuned_s()
            untuned = {key: (self.variants.untuned[key], each) for key, each in untuned_s.items()}
            tuned = tuned_functions(self.variants.functions, self.target, self.log, seed, untuned)
            fixed_s = sum(untuned_s.values()) - sum(each.calls * each.untuned_s for each in tuned)
            rounds = Rounds(tuned, session, self.target, partial(self._tell, tuned, fixed_s))
            rounds.run(self.budget.left_for_trials_s)
        except KeyboardInterrupt:
            logger.warning(
                "interrupted after %.0f s; compiling the network with the fastest trials, without "
                "a race (Ctrl-C again: no network); the same call goes on",
                self.budget.elapsed_s(),
            )
            return False
        finally:
            self._note_time()
            if session is not given:
                session.close()
        return bool(self.variants.functions)

    def _get_ready(self, session: Session) -> None:
        """Let processes for trials on a GPU start while the untuned network is compiled.

        On a CPU they would disturb how that is timed.
        """
        choices = (each for each in self.variants.untuned.values() if not isinstance(each, ByRule))
        first = next(choices, None)
        if first is not None and self.target.backend.on_gpu:
            with suppress(AutotuneError):  # the first trial says what is wrong
                session.prepare(first.workload)

    def _untuned_s(self) -> dict[str, float]:
        """Return the untuned seconds of each function, of all its calls, by its signature."""
        begun = time.monotonic()
        instance = self.variants.of({}).instance()
        instance.run()  # a first run maps memory
        samples = [seconds_of_functions(instance) for _ in range(_UNTUNED_RUNS)]
        self.budget.keep_for_the_race(_AS_LONG * (time.monotonic() - begun))
        self._untuned_run_s = statistics.median(sum(each.values()) for each in samples)
        self._note_time()
        return {key: statistics.median(each[key] for each in samples) for key in samples[0]}

    def _tell(self, tuned: list[Tuned], fixed_s: float, one: Tuned, arm: Arm) -> None:
        self._note_time()
        if self.on_round is None:
            return
        total = fixed_s + sum(each.calls * each.seconds for each in tuned)
        trials = sum(each.trials for each in tuned)
        self.on_round(
            Progress(
                self.budget.elapsed_s(), self.budget.seconds, one.function.name, arm.name, trials,
                total, one.tried_s,
            )
        )  # fmt: skip

    def _note_time(self) -> None:
        spent = round(self.budget.elapsed_s(), 3)
        note = {"network": self.name, "target": str(self.target), "spent_s": spent}
        write_note(self.log.path, note)

    # ---- the end

    def compiled(self, history: History) -> CompiledNetwork:
        """Return the network with the kernels that a log says are best."""
        branches = history.branches_of(self.name, self.target)
        return self.variants.by(history.choose, branches)

    def raced(self, history: History) -> CompiledNetwork:
        """Let the best of each function run side by side in the network, and keep the winners."""
        try:
            self._race(self._finalists(history))
        except KeyboardInterrupt:
            logger.warning("interrupted in the race; the fastest trials are used")
        except RecordError:
            raise
        except AutotuneError as error:
            logger.warning("no race: %s; the fastest trials are used", error)
        return self.compiled(History(self.log.path))

    def _finalists(self, history: History) -> dict[str, list[Choice]]:
        """Return who races of each function: the untuned first, for it wins ties.

        What a template leaves a part of is raced against all of it by rule, and what computes two
        functions against a kernel for each.
        """
        found: dict[str, list[Choice]] = {}
        for function in self.variants.functions:
            if function.signature in found or function.is_free:
                continue
            ranked = history.ranked(function, self.target, _OF_EACH_WAY)
            if not ranked and not function.parts:
                continue
            field = {each.key: each for each, _ in ranked[:_FINALISTS]}
            first = self.variants.untuned[function.signature]
            best = ranked[0][0] if ranked else first
            leaves = isinstance(best, ByTemplate) and best.offer.nodes < len(function.nodes)
            by_rule = leaves or bool(function.parts)
            if function.parts:
                self._choose_parts(function, best)
            last = {RULE.key: RULE} if by_rule else {}
            found[function.signature] = [*({first.key: first} | field | last).values()]
        return found

    def _choose_parts(self, joint: FusedFunction, best: Choice) -> None:
        """Say how the first part of a joint function is computed where that is not.

        Joint functions that share a first part share its kernel.
        """
        first = joint.parts[0]
        choice = same_for(first, best, self.target)
        if choice is not None:
            self._firsts[joint.signature] = first
            self._apart.setdefault(first.signature, choice)

    def _network(self, choices: Mapping[str, Choice], branches: bool = False) -> CompiledNetwork:
        """Return the network with some functions computed as said."""
        return self.variants.of({**self._apart, **choices}, branches)

    def _race(self, finalists: Mapping[str, Sequence[Choice]]) -> None:
        """Race, and log who won."""
        if not finalists:
            return
        where, left_s = device(self.target), self.budget.left_s
        instances = self._entrants(finalists, where)
        field = {key: each[: len(instances)] for key, each in finalists.items()}
        raced = race(field, instances, left_s)
        compared: list[Compared] = []
        if self.target.backend.on_gpu and left_s() > 0:
            winners, compared = race_whole(
                raced, lambda choices: self._network(choices).instance(where), left_s
            )
            raced = [replace(each, winner=winners[each.signature]) for each in raced]
            if left_s() > 0:
                self._race_branches(winners)
        for each in raced:
            mine = [
                [one.key, one.seconds, one.against_s]
                for one in compared
                if one.signature == each.signature
            ]
            self._log(each, {"in_whole": mine} if mine else {})
        for each in self._first_parts(raced, finalists):
            self._log(each, {})
        self._note_time()

    def _first_parts(
        self, raced: Sequence[FunctionRace], finalists: Mapping[str, object]
    ) -> Iterable[FunctionRace]:
        """Return how first parts of joint functions are computed where two kernels won.

        What is by itself elsewhere in the network had a race of its own: that counts.
        """
        found: dict[str, FunctionRace] = {}
        for each in raced:
            first = self._firsts.get(each.signature)
            if first is not None and each.winner.key == RULE.key:
                key = first.signature
                found[key] = FunctionRace(key, first.name, self._apart[key], (), (), each.rounds)
        return [each for key, each in found.items() if key not in finalists]

    def _entrants(
        self, finalists: Mapping[str, Sequence[Choice]], where: Device
    ) -> list[NetworkInstance]:
        """Return networks made of the first finalist of each function, of the second, and so on.

        The untuned kernels and the fastest trials are always included; others as far as there is
        time to compile them, and to run all as often as a race requires.
        """
        instances: list[NetworkInstance] = []
        longest_s = 0.0
        for rank in range(max(map(len, finalists.values()))):
            needed_s = longest_s + LEAST_ROUNDS * (rank + 1) * self._untuned_run_s
            if rank > 1 and self.budget.left_s() < needed_s:
                break
            begun = time.monotonic()
            mine = {key: field[min(rank, len(field) - 1)] for key, field in finalists.items()}
            instances.append(self._network(mine).instance(where))
            longest_s = max(longest_s, time.monotonic() - begun)
        return instances

    def _race_branches(self, choices: Mapping[str, Choice]) -> None:
        """Let the network run with its kernels side by side, and note whether that is faster."""
        networks = (self._network(choices, branches) for branches in (False, True))
        without_s, seconds = compare_in_turns(
            *(each.instance(device(self.target)) for each in networks)
        )
        note = {"network": self.name, "target": str(self.target), "branches": seconds < without_s}
        write_note(self.log.path, note | {"in_whole": [seconds, without_s]})

    def _log(self, raced: FunctionRace, more: Mapping[str, object]) -> None:
        write_note(self.log.path, {"network": self.name, **raced.note(self.target), **more})
