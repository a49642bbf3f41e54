"""Importers: models of other frameworks become graphs of autotune."""

from autotune.importers.imported import ImportedNetwork
from autotune.importers.onnx import from_onnx
from autotune.importers.pytorch import (
    Bound,
    Call,
    Division,
    IdleError,
    Output,
    Part,
    SymbolicProgram,
    TorchProgram,
    View,
    Write,
    exported,
    from_pytorch,
    has_turn,
    memory_of,
    nodes_that_count,
    read_or_divide,
    read_program,
    reasons,
    with_inputs,
    writes_of,
    written_inputs,
)

__all__ = [
    "Bound", "Call", "Division", "IdleError", "ImportedNetwork", "Output", "Part",
    "SymbolicProgram", "TorchProgram", "View", "Write", "exported", "from_onnx", "from_pytorch",
    "has_turn", "memory_of", "nodes_that_count", "read_or_divide", "read_program", "reasons",
    "with_inputs", "writes_of", "written_inputs",
]  # fmt: skip
