"""Compiled networks in files: kernels, plan and weights in one archive."""

from __future__ import annotations

import json
import operator
import os
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from autotune.errors import GraphError
from autotune.graph import Array, Constant, TensorType
from autotune.kernel import Kernel
from autotune.network.compiled import CompiledNetwork
from autotune.network.memory import MemoryPlan
from autotune.network.param_file import load_param_dict, save_param_dict
from autotune.network.plan import ExecutionPlan, MemoryKind, Placement, PlanStep
from autotune.runtime.module import load_module
from autotune.target import Target
from autotune.utils.check import Check
from autotune.utils.scratch import temporary_folder

_HEAD, _WEIGHTS, _VERSION = "network.json", "weights.params", 1
# A place: memory, number or offset, shape, dtype.
_Row = tuple[str, int, list[int], str]


class _Head(TypedDict):
    """The head of a file, as JSON; tuples are lists there."""

    version: int
    target: str
    steps: list[tuple[int, list[_Row]]]
    inputs: list[_Row]
    input_names: list[str]
    outputs: list[_Row]
    copies: list[tuple[_Row, _Row]]
    constants: list[tuple[str, list[int], str]]
    memory: tuple[int, int]
    modules: int


def export_network(network: CompiledNetwork, path: str | os.PathLike[str]) -> None:
    """Write a network to one file, from which `load_network` makes it again without a compiler.

    The file appears whole, or what was there stays.

    Raises:
        GraphError: no file can be written there.
    """
    check = Check(GraphError, "export_library")
    check.kind("network", network, CompiledNetwork, "a compiled network")
    file = check.path("path", path)
    plan = network.plan
    head: _Head = {
        "version": _VERSION,
        "target": str(network.target),
        "steps": [(step.kernel, [_row(p) for p in step.places]) for step in plan.steps],
        "inputs": [_row(place) for place in plan.inputs],
        "input_names": list(plan.input_names),
        "outputs": [_row(place) for place in plan.outputs],
        "copies": [(_row(a), _row(b)) for a, b in plan.copies],
        "constants": [(each.name, list(each.shape), each.dtype) for each in plan.constants],
        "memory": (plan.memory.bytes, plan.memory.least),
        "modules": len(network.modules),
    }
    weights = {f"p{i}": each.array for i, each in enumerate(plan.constants)}
    where = Path(file)
    try:
        with tempfile.TemporaryDirectory(prefix=".autotune-export-", dir=where.parent) as folder:
            whole = Path(folder, "whole")
            with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
                archive.writestr(_HEAD, json.dumps(head))
                archive.writestr(_WEIGHTS, save_param_dict(weights))
                for number, module in enumerate(network.modules):
                    part = Path(folder, f"{number}")
                    module.export_library(part)
                    archive.write(part, f"kernels/{number}")
            whole.replace(where)
    except OSError as error:
        raise GraphError(f"export_library: cannot write {where}: {error.strerror}") from error


def is_network(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file is what `export_network` wrote."""
    try:
        with zipfile.ZipFile(path) as archive:
            return _HEAD in archive.namelist()
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def load_network(path: str | os.PathLike[str]) -> CompiledNetwork:
    """Read what `export_network` wrote.

    The file holds machine code, which runs in this process: load only files that you trust.
    Damage is found; malice is not.

    Raises:
        GraphError: the file is missing, or is something else.
    """
    file = Check(GraphError, "load_network").path("path", path)
    try:
        return _load(file)
    except (OSError, zipfile.BadZipFile, zlib.error, ArithmeticError, AttributeError, EOFError,
            LookupError, RuntimeError, TypeError, ValueError) as error:  # fmt: skip
        raise GraphError(
            "load_network: path must be what export_network or export_library wrote, "
            f"got {file}: {getattr(error, 'strerror', None) or error}"
        ) from error


def _load(path: str) -> CompiledNetwork:
    with (
        zipfile.ZipFile(path) as archive,
        temporary_folder("load") as folder,
    ):
        if any(each.compress_type != zipfile.ZIP_STORED for each in archive.infolist()):
            raise ValueError("its parts must be stored as they are, some are compressed")
        head: _Head = json.loads(archive.read(_HEAD))
        if head["version"] != _VERSION:
            raise ValueError("it is of another version of autotune; build it again")
        modules = []
        for number in range(head["modules"]):
            part = Path(folder, str(number))
            part.write_bytes(archive.read(f"kernels/{number}"))
            modules.append(load_module(part))
        weights = load_param_dict(archive.read(_WEIGHTS))
    plan = _plan(head, {name: each.numpy() for name, each in weights.items()})
    _check(plan, [module.kernel for module in modules])
    return CompiledNetwork(plan, tuple(modules), Target(head["target"]))


def _check(plan: ExecutionPlan, kernels: Sequence[Kernel]) -> None:
    """Refuse a plan whose places are not there, or are not what its kernels take."""
    memories = {
        MemoryKind.INPUT: [each.bytes for each in plan.inputs],
        MemoryKind.OUTPUT: [each.bytes for each in plan.outputs],
        MemoryKind.CONSTANT: [each.type.bytes for each in plan.constants],
    }

    def is_there(place: Placement) -> bool:
        if place.memory is MemoryKind.ARENA:
            return 0 <= place.at <= plan.memory.bytes - place.bytes
        sizes = memories[place.memory]
        return place.at in range(len(sizes)) and sizes[place.at] == place.bytes

    for places in (*[step.places for step in plan.steps], *plan.copies, plan.outputs):
        if lost := [place for place in places if not is_there(place)]:
            raise ValueError(f"there is no {lost[0]}")
    for step in plan.steps:
        taken = [(p.shape, p.dtype) for p in step.places]
        known = step.kernel in range(len(kernels))
        if not known or taken != [(a.shape, a.dtype) for a in kernels[step.kernel].args]:
            raise ValueError(f"there is no kernel {step.kernel} of {taken}")
    if len(plan.input_names) != len(plan.inputs):
        raise ValueError(f"{len(plan.inputs)} inputs have {len(plan.input_names)} names")


def _plan(head: _Head, weights: dict[str, Array]) -> ExecutionPlan:
    constants = tuple(
        Constant.of(weights[f"p{i}"].reshape(TensorType(tuple(shape), dtype).shape), name, dtype)
        for i, (name, shape, dtype) in enumerate(head["constants"])
    )
    total, least = map(int, head["memory"])
    return ExecutionPlan(
        kernels=(),
        steps=tuple(
            PlanStep(kernel, tuple(map(_place, places))) for kernel, places in head["steps"]
        ),
        inputs=tuple(map(_place, head["inputs"])),
        input_names=tuple(head["input_names"]),
        outputs=tuple(map(_place, head["outputs"])),
        copies=tuple((_place(a), _place(b)) for a, b in head["copies"]),
        constants=constants,
        memory=MemoryPlan({}, total, least, {}),
    )


def _row(place: Placement) -> _Row:
    return place.memory.value, place.at, list(place.shape), place.dtype


def _place(row: _Row) -> Placement:
    memory, at, shape, dtype = row
    kind = TensorType(tuple(shape), dtype)
    return Placement(MemoryKind(memory), operator.index(at), kind.shape, kind.dtype)
