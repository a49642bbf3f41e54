"""Rounds of trials of a network's functions, several at a time on one session."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import partial

from autotune.errors import AutotuneError, RecordError
from autotune.measure import Session
from autotune.network.tuning.allocation import next_arm
from autotune.network.tuning.arms import Arm, Tuned
from autotune.target import Target
from autotune.utils.pools import abandonable_pool

logger = logging.getLogger("autotune")

# Fewest trials of the first round of an arm, and of later ones; where more fit into the pipeline
# of builders and runners, half of that: the round of another function is in the other half.
_FIRST_ROUND, _ROUND = 4, 8
# Rounds at once: while one proposes and learns, those of others are built and run. Each needs so
# many places of the pipeline.
_MOST_AT_ONCE, _PLACES = 4, 8


class Rounds:
    """Gives each round to the function with the largest expected gain, until told to stop.

    On a CPU there is one round at a time, since the search for one function would disturb the
    trials of another.

    Args:
        tuned: the functions and the ways to compute each.
        session: builds and runs.
        target: the target.
        on_round: called in this thread after each round.
    """

    def __init__(
        self,
        tuned: Sequence[Tuned],
        session: Session,
        target: Target,
        on_round: Callable[[Tuned, Arm], None],
    ) -> None:
        self._tuned = tuned
        self._session = session
        self._on_round = on_round
        fit = session.capacity // _PLACES if session.mixes_tasks and target.backend.on_gpu else 1
        self._at_once = max(1, min(_MOST_AT_ONCE, fit))
        self._under_way: dict[Future[None], tuple[Tuned, Arm]] = {}
        self._over = False

    def run(self, left_s: Callable[[], float]) -> None:
        """Make rounds as long as there is time, and anything left to try.

        A round whose time runs out ends with the trials that ended until then. After an error or
        an interrupt, rounds that are under way make no further trials, and are not waited for.

        Args:
            left_s: seconds that are left.

        Raises:
            RecordError: the log cannot be written; trials would be lost.
        """
        if self._at_once == 1:
            while (seconds := left_s()) > 0 and (found := next_arm(self._tuned)) is not None:
                self._round(*found, seconds)
                self._on_round(*found)
            return
        with abandonable_pool(self._at_once, "autotune-network") as pool:
            try:
                while self._begin(pool, left_s) or self._under_way:
                    self._end_one()
            finally:
                self._over = True
                for _, arm in self._under_way.values():
                    arm.run.halt("the tuning of the network ended")

    def _begin(self, pool: ThreadPoolExecutor, left_s: Callable[[], float]) -> bool:
        """Begin as many rounds as may be under way; return whether there was one to begin."""
        begun = False
        while len(self._under_way) < self._at_once and (seconds := left_s()) > 0:
            found = next_arm(self._tuned)
            if found is None:
                break
            begun = found[1].busy = True
            future = pool.submit(partial(copy_context().run, self._round, *found, seconds))
            self._under_way[future] = found
        return begun

    def _end_one(self) -> None:
        """Wait for the end of a round at least."""
        done, _ = wait(self._under_way, return_when=FIRST_COMPLETED)
        for future in done:
            one, arm = self._under_way.pop(future)
            arm.busy = False
            future.result()
            self._on_round(one, arm)

    def _round(self, one: Tuned, arm: Arm, timeout_s: float) -> None:
        try:
            arm.advance(self._session, self._trials(arm), timeout_s, time.monotonic)
        except RecordError:
            raise
        except AutotuneError as error:
            arm.exhausted = True
            if self._over:  # the session was closed under it
                return
            logger.warning("%s by %s: %s", one.function.name, arm.name, error)

    def _trials(self, arm: Arm) -> int:
        """Return how many trials the next round of an arm makes."""
        least = _ROUND if arm.best_by_round else _FIRST_ROUND
        return max(least, self._session.capacity // 2)
