"""What an importer returns: a graph, and numbers for those of its inputs that are parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.graph import Array, Graph, Result


@dataclass(frozen=True)
class ImportedNetwork:
    """A network that was read from a model.

    Attributes:
        graph: its inputs have the names that the model gives them; parameters are constants,
            unless the importer was asked to leave them as inputs.
        params: numbers of the parameters that are inputs of the graph, by name.
        output_names: the names that the model gives its outputs, in order.
        state: first numbers of the buffers that the model writes, by name: they are inputs.
        writes: of each input that the model writes, such as these buffers, the number of the
            output with its new numbers, which is behind the model's own outputs.
    """

    graph: Graph
    params: Mapping[str, Array] = field(default_factory=dict)
    output_names: tuple[str, ...] = ()
    state: Mapping[str, Array] = field(default_factory=dict)
    writes: Mapping[str, int] = field(default_factory=dict)

    @property
    def bound(self) -> Graph:
        """The graph with all parameters as constants."""
        return self.graph.bind(self.params)

    @property
    def over(self) -> dict[int, int]:
        """Outputs that may be in the memory of the input that they are the new numbers of.

        For `compile_network`, whose kernels then store only what is written, where they can.
        """
        place = {each.name: i for i, each in enumerate(self.graph.inputs)}
        outputs = self.graph.outputs
        return {
            output: place[name] for name, output in self.writes.items()
            if isinstance(outputs[output], Result) and outputs.count(outputs[output]) == 1
            and self.graph.inputs[place[name]] not in outputs
        }  # fmt: skip
