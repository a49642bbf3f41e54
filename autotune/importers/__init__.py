"""Importers: models of other frameworks become graphs of autotune.

`from_onnx` and `from_pytorch` return an `ImportedNetwork`. The graphs of `torch.compile`, some
operators of which may stay in torch, are read by `read_or_divide`.
"""

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
