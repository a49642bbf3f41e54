"""Pins the kernels of a network in a lock file, and checks pinned kernels again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autotune.errors import AutotuneError, GraphError, LockError
from autotune.graph.fuse import FusedFunction
from autotune.kernel import Kernel
from autotune.lock import LOCK_FILE, LockedFunction, read_functions, read_lock, write_lock
from autotune.lock.check import Checked, compared, elsewhere, present_class
from autotune.lock.entries import (
    compiler_of,
    device_class_of,
    device_name,
    machine_code,
    text_hashes,
)
from autotune.measure import (
    LocalBuilder,
    LocalRunner,
    MeasureInput,
    MeasureResult,
    measure_option,
)
from autotune.measure.evidence import Evidence
from autotune.measure.final.recheck import TimingConditions, recheck
from autotune.network.choice import Choice
from autotune.network.choice_json import choice_from_json, choice_to_json
from autotune.network.compile import fallback_kernel, kernel_of_unit, workload_of_unit
from autotune.network.compiled import CompiledNetwork
from autotune.network.function_json import function_from_json, function_to_json
from autotune.network.units import Unit, units_of
from autotune.runtime.compile.elf import code_hash
from autotune.runtime.module import Module
from autotune.target import Target
from autotune.utils.check import Check

OptionFor = Callable[[TimingConditions], Mapping[str, object]]
# A first time, which is measured anew, and not looked at.
_ANY = MeasureResult((1.0,), 0, 0.0, 0.0)


@dataclass(frozen=True)
class _Part:
    """A unit of a function with what was compiled of it."""

    unit: Unit
    module: Module


def lock_network(
    network: CompiledNetwork,
    path: str | os.PathLike[str] = LOCK_FILE,
    *,
    time: bool = True,
    option_for: OptionFor | None = None,
) -> int:
    """Pin the kernels of a network in a lock, beside what it has already.

    With ``AUTOTUNE_FROZEN=1`` a network then gets these kernels, or compiling it is an error.
    A function that is there already for this target and kind of device, of this network or
    another one, is replaced.

    Args:
        network: what `compile_network` or `tune_network` returned.
        path: the lock.
        time: whether each kernel is run, its answer checked and its time noted, on the device
            that is here; `autotune lock check` compares with it.
        option_for: returns who builds and who runs under given conditions of timing; by default
            this machine.

    Returns:
        how many functions were pinned.

    Raises:
        LockError: the lock cannot be read or written, a kernel gives a wrong answer or fails, or
            does not follow from how its function is computed, as after ``kernel_for=``.
    """
    Check(GraphError, "lock_network").kind("network", network, CompiledNetwork, "a network")
    target = network.target
    parts: dict[str, list[_Part]] = {}
    for unit, module in zip(network.plan.kernels, network.modules, strict=False):
        parts.setdefault(unit.whole.signature, []).append(_Part(unit, module))
    if not parts:
        raise LockError("the network is from a file, which does not say what its kernels are of")
    timed = _timed(parts, target, option_for or _here) if time else {}
    made = [_locked(each, target, timed) for each in parts.values()]
    kept = read_functions(path) if Path(path).exists() else []
    new = {each.key: each for each in made}
    functions = [e for e in kept if e.key not in new and not _is_apart(e, network)] + made
    kernels = read_lock(path) if Path(path).exists() else []
    write_lock(path, kernels, sorted(functions, key=lambda each: (each.function, each.key)))
    return len(made)


def _is_apart(entry: LockedFunction, network: CompiledNetwork) -> bool:
    """Return whether an entry is of a joint function whose parts the network runs instead."""
    here = (str(network.target), device_class_of(network.target))
    units = [step.unit for step in network.plan.steps if step.unit is not None]
    apart = {unit.within.signature for unit in units if unit.within is not None}
    return (entry.target, entry.device_class) == here and entry.signature in apart


def _here(conditions: TimingConditions) -> Mapping[str, object]:
    runner = LocalRunner(60, repeat=9, verify="all", **conditions.arguments())
    return measure_option(LocalBuilder(60), runner)


def _input(unit: Unit, target: Target) -> MeasureInput:
    workload, candidate = workload_of_unit(unit, target)
    return MeasureInput(target, workload, candidate)


def _timed(
    parts: Mapping[str, list[_Part]], target: Target, option_for: OptionFor
) -> dict[str, MeasureResult]:
    """Time each kernel once more on its own; return the results by `Unit.key`."""
    units = [each.unit for every in parts.values() for each in every]
    inputs = {unit.key: _input(unit, target) for unit in units}
    keys = {(inp.task, inp.key): key for key, inp in inputs.items()}
    found = {}
    for one in recheck([(inp, _ANY) for inp in inputs.values()], option_for):
        result = one.measured
        if not result.ok:
            raise LockError(f"a kernel of the network cannot be locked: {result.error_msg:.300}")
        found[keys[one.measure_input.task, one.measure_input.key]] = result
    return found


def _locked(
    parts: Sequence[_Part], target: Target, timed: Mapping[str, MeasureResult]
) -> LockedFunction:
    whole, choice = parts[0].unit.whole, parts[0].unit.choice
    for part in parts:
        again = kernel_of_unit(part.unit, target, fallback_kernel)
        if text_hashes(again) != text_hashes(part.module.kernel):
            raise LockError(
                f"{whole.name}: its kernel is not that of {part.unit.choice.provenance}; give "
                "compile_network a chooser, such as History(log).choose, in place of kernel_for="
            )
    results = [timed[each.unit.key] for each in parts if each.unit.key in timed]
    return LockedFunction(
        function=whole.name,
        signature=whole.signature,
        target=str(target),
        device=device_name(target),
        device_class=device_class_of(target),
        way=choice.provenance,
        text_sha256=tuple(text_hashes(each.module.kernel)[0] for each in parts),
        code_sha256=tuple(code_hash(each.module.artifact) for each in parts),
        compiler=compiler_of(target),
        microseconds=tuple(each.seconds * 1e6 for each in results),
        ci95=tuple(_interval(each) for each in results),
        evidence=_evidence(results),
        choice=json.dumps(choice_to_json(choice)),
        graph=json.dumps(function_to_json(whole)),
    )


def _interval(result: MeasureResult) -> tuple[float, float]:
    low, high = result.evidence.ci95 or (result.seconds, result.seconds)
    return low * 1e6, high * 1e6


def _evidence(results: Sequence[MeasureResult]) -> str:
    if not results:
        return "not timed"
    samples = min(each.evidence.samples or 1 for each in results)
    checked = all(each.evidence.verified for each in results)
    said = "answer checked" if checked else "answer not checked"
    return f"each kernel on its own, median of {samples} samples, {said}"


# ---- does it still hold?


def check_functions(
    entries: Sequence[LockedFunction],
    option_for: OptionFor | None,
    fail_above: float = 0.05,
    timeout_s: float = 600.0,
) -> Iterator[Checked]:
    """Build, verify and time what is locked for the present device; see `check_lock`."""
    sound: list[tuple[LockedFunction, list[MeasureInput]]] = []
    for entry in entries:
        found = _static(entry, timeout_s, device=option_for is not None)
        if isinstance(found, Checked):
            yield found
        elif option_for is None or not entry.microseconds:
            why = "text and machine code are the same; not timed"
            yield Checked(_title(entry), "holds", why)
        else:
            sound.append((entry, found))
    if option_for is not None:
        yield from _timed_again(sound, option_for, fail_above)


def _timed_again(
    sound: Sequence[tuple[LockedFunction, list[MeasureInput]]],
    option_for: OptionFor,
    fail_above: float,
) -> Iterator[Checked]:
    """Run all kernels of some functions; tell of each function when all of its have run."""
    waiting = [
        (entry, inp, _recorded(entry, number))
        for entry, inputs in sound
        for number, inp in enumerate(inputs)
    ]
    found: dict[tuple[str, str, str], list[Checked]] = {}
    for one in recheck([(inp, result) for _, inp, result in waiting], option_for):
        mine = next(w for w in waiting if w[1] == one.measure_input and w[2] is one.recorded)
        waiting.remove(mine)
        entry = mine[0]
        every = found.setdefault(entry.key, [])
        every.append(compared(_title(entry), one, fail_above))
        if len(every) == len(entry.text_sha256):
            yield _worst(every)


def _title(entry: LockedFunction) -> str:
    return f"{entry.function} {entry.signature}"


def _static(entry: LockedFunction, timeout_s: float, device: bool) -> Checked | list[MeasureInput]:
    """Compare texts and machine code; return what is to be run where they are the same."""
    title = _title(entry)
    try:
        target = Target(entry.target)
        here = present_class(target) if device else device_class_of(target)
        if entry.device_class != here:
            return Checked(title, "elsewhere", elsewhere(entry, here))
        units = _units(entry, target)
        for number, unit in enumerate(units):
            kernel = kernel_of_unit(unit, target, fallback_kernel)
            found = _difference(entry, number, kernel, target, timeout_s)
            if found is not None:
                return Checked(title, *found)
        if len(units) != len(entry.text_sha256):
            return Checked(title, "text", f"it has {len(units)} kernels now")
        return [_input(unit, target) for unit in units]
    except (AutotuneError, LookupError, TypeError, ValueError, AttributeError) as error:
        return Checked(title, "failed", str(error).strip().partition("\n")[0])


def _units(entry: LockedFunction, target: Target) -> list[Unit]:
    function: FusedFunction = function_from_json(json.loads(entry.graph))
    if function.signature != entry.signature:
        raise LockError("its operators are not those of its signature; it was edited by hand")
    choice: Choice = choice_from_json(json.loads(entry.choice), function, target)
    return units_of([function], target, lambda *_: choice)


def _difference(
    entry: LockedFunction, number: int, kernel: Kernel, target: Target, timeout_s: float
) -> tuple[Literal["text", "code"], str] | None:
    """Compare text and machine code of one kernel; None where they are the same."""
    count = len(entry.text_sha256)
    texts, locked = text_hashes(kernel), entry.text_sha256[number] if number < count else ""
    if locked not in texts:
        return "text", f"its text is {texts[0][:12]} now, locked is {locked[:12] or 'none'}"
    code, then = machine_code(kernel, target, timeout_s), entry.code_sha256[number]
    if code != then:
        why = f"its machine code is {code[:12]} now, locked is {then[:12]}"
        return "code", f"{why}; by {compiler_of(target)}, then {entry.compiler}"
    return None


def _recorded(entry: LockedFunction, number: int) -> MeasureResult:
    low, high = (each * 1e-6 for each in entry.ci95[number]) if entry.ci95 else (0.0, 0.0)
    evidence = Evidence(ci95=(low, high) if entry.ci95 else None)
    return MeasureResult((entry.microseconds[number] * 1e-6,), 0, 0.0, 0.0, "", evidence)


def _worst(found: Sequence[Checked]) -> Checked:
    order = ("wrong", "failed", "slower", "holds", "faster")
    return min(found, key=lambda each: order.index(each.outcome))
