"""Proposals are tested before they become trials: what cannot run costs none."""

from __future__ import annotations

import logging

from autotune.errors import TunerError
from autotune.measure import MeasureInput, MeasureResult, Pipeline
from autotune.tuner.loop.failures import Failures
from autotune.tuner.loop.result import args_of
from autotune.tuner.loop.scoreboard import Scoreboard
from autotune.tuner.loop.strategy import Strategy

logger = logging.getLogger("autotvm")

# Proposals in a row that cannot run before a run ends; where templates are lowered that is some
# ten seconds. Before so many it is said that few can.
PATIENCE, WARN = 4000, 200


class Screening:
    """Runs the template and lowers it for each proposal, before it is counted as a trial.

    A proposal that a template, the schedule or the target's limits refuse does not become a trial:
    it is neither logged nor shown to callbacks, but the strategy learns that it failed and
    proposes another. For a proposal that passes no work is lost, since the builder uses its
    result.

    Args:
        strategy: makes the proposals.
        scoreboard: its `filtered` counts refused proposals.
        active: whether proposals are tested at all.

    Attributes:
        in_a_row: proposals refused since the last one that passed.
    """

    def __init__(self, strategy: Strategy, scoreboard: Scoreboard, active: bool) -> None:
        self._strategy = strategy
        self._scoreboard = scoreboard
        self._active = active
        self._causes = Failures()
        self._passed = False
        self._news: list[tuple[MeasureInput, MeasureResult]] = []
        self.in_a_row = 0
        scoreboard.filtered = 0

    def passes(self, line: Pipeline, measure_input: MeasureInput) -> bool:
        """Return whether a proposal may become a trial."""
        refusal = line.session.refusal(measure_input) if self._active else None
        if refusal is None:
            self.in_a_row, self._passed = 0, True
            return True
        self._scoreboard.filtered += 1
        self.in_a_row += 1
        self._causes.recall([refusal])
        self._news.append((measure_input, refusal))
        if self.in_a_row == WARN:
            logger.warning("%d proposals in a row cannot run, such as: %s", WARN, self.example)
        return False

    def teach(self, line: Pipeline) -> None:
        """Let the strategy learn what was refused since the last call."""
        news, self._news = self._news, []
        if news:
            with line.host_work():
                self._strategy.tell(news)

    @property
    def hopeless(self) -> bool:
        """Whether too many proposals were refused to continue."""
        return self.in_a_row >= PATIENCE

    @property
    def example(self) -> str:
        """The most frequent reason of refusals; empty where there were none."""
        return self._causes.example

    def end(self, measured: int) -> str | None:
        """Say why nothing more is proposed, if that is because nothing more can run.

        Raises:
            TunerError: nothing was found that can run, in this call or before it.
        """
        if not self._causes:
            return None
        if not self._passed and not measured:
            task = self._scoreboard.workload
            count = self._scoreboard.filtered
            tried = f"{'the first' if self.hopeless else 'all'} {count} configurations"
            if count == 1:
                tried = "the only configuration"
            raise TunerError(
                f"task {task.name!r}{args_of(task)} for {task.target}: {tried} proposed cannot "
                f"run, most because of: {self._causes.whole_example}. Change the template or its "
                f"knobs; tune(count_invalid=True) makes each of them a failed trial"
            )
        return f"the last {self.in_a_row} proposals cannot run" if self.hopeless else None
