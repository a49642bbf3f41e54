"""Networks in frozen mode: every function is computed as the lock file says, or it is an error."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from autotune.errors import AutotuneError, FrozenError
from autotune.graph.fuse import FusedFunction
from autotune.lock import LockedFunction, locked_functions
from autotune.lock.entries import SHOWN, compiler_of, device_class_of, text_hashes
from autotune.network.choice import RULE, Choice
from autotune.network.choice_json import choice_from_json
from autotune.network.plan import ExecutionPlan
from autotune.runtime.compile.elf import code_hash
from autotune.runtime.module import Module
from autotune.target import Target

# Functions that an error names.
_NAMED = 4


class Pins:
    """The pinned choices of this process's lock for the functions of networks on a target.

    Raises:
        LockError: there is no lock, or it cannot be read.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self._path: Path
        self._path, every = locked_functions()
        self._every = list(every)
        self._class = device_class_of(target)

    def entry(self, function: FusedFunction) -> LockedFunction | None:
        """Return the lock's entry of a function for this kind of device."""
        same = [e for e in self._every if e.signature == function.signature]
        here = [e for e in same if e.device_class == self._class]
        return next((e for e in here if e.target == str(self.target)), here[0] if here else None)

    def choose(self, function: FusedFunction, target: Target) -> Choice:
        """Return how a function is computed; functions that are not locked fail in `check_plan`.

        Raises:
            FrozenError: the locked way to compute it does not exist any more.
        """
        entry = self.entry(function)
        if entry is None:
            return RULE
        try:
            return choice_from_json(json.loads(entry.choice), function, target)
        except (AutotuneError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise FrozenError(
                f"{function.name}: {self._path} has it as {entry.way}, which cannot be made any "
                f"more: {error}; lock again"
            ) from error

    def check_plan(self, plan: ExecutionPlan) -> None:
        """Raise if functions that need a kernel are not locked; all of them are counted."""
        wholes = {unit.whole.signature: unit.whole for unit in plan.kernels}
        missing = [each for each in wholes.values() if self.entry(each) is None]
        if not missing:
            return
        said = "; ".join(self._miss(each) for each in missing[:_NAMED])
        more = f"; and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        raise FrozenError(
            f"{len(missing)} of {len(wholes)} functions of the network are not in {self._path} "
            f"for {self._class}: {said}{more}. To go on, lock the network anew, or run without "
            "AUTOTUNE_FROZEN"
        )

    def _miss(self, function: FusedFunction) -> str:
        """Say what is near a function and why it does not count."""
        title = f"{function.name} of {_shapes(function)}"
        other = [e for e in self._every if e.signature == function.signature]
        if other:
            classes = sorted({f"{e.device_class} ({e.device})" for e in other})
            return f"{title} is locked for {', '.join(classes)} only"
        near = [e for e in self._every if e.function == function.name]
        if near:
            return f"{title}, near it is that of {_near(function, near)}"
        return f"{title}, nothing is near it"

    def check_built(self, plan: ExecutionPlan, modules: Sequence[Module]) -> None:
        """Compare texts and machine code of kernels with what is locked.

        Raises:
            FrozenError: one is another.
        """
        numbers: dict[str, int] = {}
        for unit, module in zip(plan.kernels, modules, strict=True):
            entry = self.entry(unit.whole)
            assert entry is not None, "`check_plan` came before"
            number = numbers.get(unit.whole.signature, 0)
            numbers[unit.whole.signature] = number + 1
            self._compare(entry, number, module)

    def _compare(self, entry: LockedFunction, number: int, module: Module) -> None:
        locked = entry.text_sha256[number] if number < len(entry.text_sha256) else ""
        texts, code = text_hashes(module.kernel), code_hash(module.artifact)
        if locked not in texts:
            raise FrozenError(
                f"{entry.function}: its kernel has another text now ({texts[0][:SHOWN]}) than the "
                f"one that was locked ({locked[:SHOWN] or 'none'} in {self._path}), so its time "
                "and answer are not known; lock the network anew"
            )
        if code != entry.code_sha256[number]:
            raise FrozenError(
                f"{entry.function}: machine code {code[:SHOWN]} was built of the locked text for "
                f"{self.target}; {self._path} has {entry.code_sha256[number][:SHOWN]} for "
                f"{entry.target}, made by {entry.compiler}; here it is "
                f"{compiler_of(self.target)}. Use that target and compiler, or lock again"
            )


def _shapes(function: FusedFunction) -> str:
    return ", ".join(str(value.type) for value in function.inputs)


def _near(function: FusedFunction, entries: Iterable[LockedFunction]) -> str:
    """Return the shapes of the entry that differs least."""
    own = [[list(value.shape), value.dtype] for value in function.inputs]

    def read(entry: LockedFunction) -> list[list[object]]:
        rows = json.loads(entry.graph)["inputs"]
        return [list(row[:2]) for row in rows]

    def apart(rows: list[list[object]]) -> int:
        pairs = zip(own, rows, strict=False)
        return sum(a != b for a, b in pairs) + abs(len(own) - len(rows))

    nearest = min(map(read, entries), key=lambda rows: (apart(rows), str(rows)))
    return ", ".join(f"{dtype}{shape}" for shape, dtype in nearest)
