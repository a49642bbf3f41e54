"""Reads models of PyTorch: modules, TorchScript and exported programs."""

from autotune.importers.pytorch.call import Bound, Call
from autotune.importers.pytorch.division import (
    Division,
    Part,
    nodes_that_count,
    read_or_divide,
    reasons,
)
from autotune.importers.pytorch.importer import (
    IdleError,
    Output,
    TorchProgram,
    from_pytorch,
    read_program,
)
from autotune.importers.pytorch.nodes import has_turn
from autotune.importers.pytorch.program import exported
from autotune.importers.pytorch.symbolic import SymbolicProgram
from autotune.importers.pytorch.writes import (
    View,
    Write,
    memory_of,
    with_inputs,
    writes_of,
    written_inputs,
)

__all__ = [
    "Bound", "Call", "Division", "IdleError", "Output", "Part", "SymbolicProgram", "TorchProgram",
    "View", "Write", "exported", "from_pytorch", "has_turn", "memory_of", "nodes_that_count",
    "read_or_divide", "read_program", "reasons", "with_inputs", "writes_of", "written_inputs",
]  # fmt: skip
