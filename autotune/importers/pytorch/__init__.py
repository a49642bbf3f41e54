"""Reads models of PyTorch: modules, TorchScript and exported programs."""

from autotune.importers.pytorch.call import Call
from autotune.importers.pytorch.importer import TorchProgram, View, from_pytorch, read_program
from autotune.importers.pytorch.program import exported

__all__ = ["Call", "TorchProgram", "View", "exported", "from_pytorch", "read_program"]
