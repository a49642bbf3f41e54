"""What an importer returns: a graph, and numbers for those of its inputs that are parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.graph import Array, Graph


@dataclass(frozen=True)
class ImportedNetwork:
    """A network that was read from a model.

    Attributes:
        graph: its inputs have the names that the model gives them; parameters are constants,
            unless the importer was asked to leave them as inputs.
        params: numbers of the parameters that are inputs of the graph, by name.
        output_names: the names that the model gives its outputs, in order.
    """

    graph: Graph
    params: Mapping[str, Array] = field(default_factory=dict)
    output_names: tuple[str, ...] = ()

    @property
    def bound(self) -> Graph:
        """The graph with all parameters as constants."""
        return self.graph.bind(self.params)
