"""State shared by the tasks of one run: one model of all trials, and their best rows.

The tasks of a network are similar. A common model learns from the trials of all tasks and corrects
the analytical estimates of all (`common_model`). The fastest candidates of a task are
tried for tasks whose sketches have the same open numbers, mapped to their extents (`transfer`).
TVM shares a cost model among the tasks of a network, too; trying schedules of one layer for
another is known as transfer-tuning (Gibson and Cano, PACT 2022).
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.auto_scheduler.search.models.common_model import (
    CommonModel,
    Features,
    ShippedTrials,
    with_workload,
)
from autotune.auto_scheduler.search.models.descriptor import Descriptor
from autotune.auto_scheduler.search.models.row_model import RowModel
from autotune.auto_scheduler.search.program_search import ProgramSearch, Row, trials_of
from autotune.auto_scheduler.search.space.transfer import mapped

# So many similar tasks are looked at, and so many of the fastest rows of each.
_TASKS, _ROWS = 3, 16


class SharedTrials:
    """The tasks that one cost model serves, in groups within which trials can be compared.

    A group has one kind of analytical cost model and one target.
    """

    def __init__(self) -> None:
        self._groups: dict[Hashable, TaskGroup] = {}

    def group(self, name: Hashable, shipped: ShippedTrials | None) -> TaskGroup:
        """Return a group; a new one starts with the pretrained model, if there is one."""
        return self._groups.setdefault(name, TaskGroup(CommonModel(shipped)))


@dataclass
class TaskGroup:
    """Tasks whose trials can be compared.

    Attributes:
        model: of the trials of all.
        members: the tasks, by key; a task that joins again takes the place of the first.
    """

    model: CommonModel
    members: dict[str, GroupMember] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def join(
        self,
        key: str,
        descriptor: Descriptor,
        programs: Sequence[ProgramSearch],
        ranking: RowModel,
    ) -> GroupMember:
        """Add a task, and return it as the group sees it."""
        self.members[key] = GroupMember(self, key, descriptor, programs, ranking)
        return self.members[key]

    def catch_up(self) -> None:
        """Let the model learn from all trials since the last call.

        Called before the model is used, not with each result, as estimates and trees for many
        trials cost little more than for one. Tasks may be searched in several threads.
        """
        with self._lock:
            new = [each for each in list(self.members.values()) if each.has_news]
            for each in new:
                each.judge()
            for each in new:
                each.tell()


@dataclass
class GroupMember:
    """One task of a group.

    Attributes:
        group: all of them.
        key: of the task.
        descriptor: what tells it from others.
        programs: its programs.
        ranking: what ranks their rows.
    """

    group: TaskGroup
    key: str
    descriptor: Descriptor
    programs: Sequence[ProgramSearch]
    ranking: RowModel
    _told: Sequence[int] = ()

    def described(self, features: Features, tiles: bool) -> Features:
        """Return features of rows of one program with the columns that the model needs."""
        return with_workload(features, self.descriptor, tiles)

    @property
    def has_news(self) -> bool:
        """Whether it has trials that the model of the group has not learned yet."""
        return sum(self._told) < sum(len(searched.seconds) for searched in self.programs)

    def judge(self) -> None:
        """Score the predictions of the others for new trials, before the model learns these."""
        new = trials_of(self.programs, self.described, self._told)
        if new is not None:
            self.ranking.judge(*new.columns)

    def tell(self) -> None:
        """Let the model of all tasks learn the trials of this one."""
        self._told = [len(searched.seconds) for searched in self.programs]
        known = trials_of(self.programs, self.described)
        if known is not None:
            self.group.model.learn(self.key, *known.columns)

    def elites(self) -> list[tuple[int, Row]]:
        """Return the fastest rows of similar tasks, as programs and rows of this one, each once.

        The fastest of each come first, those of the most similar task before others.
        """
        found = [self._taken_over(other) for other in self._similar()]
        longest = max(map(len, found), default=0)
        order = [rows[i] for i in range(longest) for rows in found if i < len(rows)]
        return list({(at, row.tobytes()): (at, row) for at, row in order}.values())

    def _similar(self) -> list[GroupMember]:
        """Return the most similar of the tasks with trials of a program of a kind of ours."""
        others = [each for each in self.group.members.values() if each is not self]
        tried = [each for each in others if any(searched.rows for searched in each.programs)]
        if not tried:
            return []
        own = {searched.kind.signature for searched in self.programs if searched.cost_model.tiles}
        known = [
            (float(np.abs(other.descriptor - self.descriptor).sum()), other.key, other)
            for other in tried
            if any(searched.rows and searched.kind.signature in own for searched in other.programs)
        ]
        return [other for _, _, other in sorted(known, key=lambda each: each[:2])[:_TASKS]]

    def _taken_over(self, other: GroupMember) -> list[tuple[int, Row]]:
        """Return the fastest rows of another task as rows of this one, those that it can run."""
        ranked = sorted(
            (seconds, at, number)
            for at, searched in enumerate(other.programs)
            for number, seconds in enumerate(searched.seconds)
            if np.isfinite(seconds)
        )
        found = []
        for _, at, number in ranked[:_ROWS]:
            source = other.programs[at]
            place = self._place(source)
            if place is not None:
                rows = mapped(
                    source.rows[number][None], source.program, self.programs[place].program
                )
                found += [(place, row) for row in self.programs[place].sampler.kept(rows)]
        return found

    def _place(self, source: ProgramSearch) -> int | None:
        """Return which of our programs is most like another task's."""
        alike = [
            (searched.kind.distance(source.kind), at)
            for at, searched in enumerate(self.programs)
            if searched.cost_model.tiles and searched.kind.signature == source.kind.signature
        ]
        return min(alike)[1] if alike else None
