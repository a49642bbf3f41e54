"""Reads models of PyTorch: modules, TorchScript and exported programs."""

from autotune.importers.pytorch.call import Call
from autotune.importers.pytorch.division import (
    Division,
    Part,
    nodes_that_count,
    read_or_divide,
    reasons,
)
from autotune.importers.pytorch.importer import (
    Output,
    TorchProgram,
    View,
    from_pytorch,
    read_program,
)
from autotune.importers.pytorch.nodes import has_turn
from autotune.importers.pytorch.program import exported

__all__ = [
    "Call", "Division", "Output", "Part", "TorchProgram", "View", "exported", "from_pytorch",
    "has_turn", "nodes_that_count", "read_or_divide", "read_program", "reasons",
]  # fmt: skip
