"""From an ONNX model to a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.importers.imported import ImportedNetwork


def from_onnx(
    model: object,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dtypes: str | Mapping[str, str] | None = None,
) -> ImportedNetwork:
    """Read a model."""
    raise NotImplementedError
