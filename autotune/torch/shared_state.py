"""What all networks of the same parameters share: their constants, and kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any
from weakref import WeakValueDictionary

from autotune.graph import Constant
from autotune.network import SharedKernels
from autotune.torch.versions import Versions, watched

_known: WeakValueDictionary[frozenset[int], SharedState] = WeakValueDictionary()


class SharedState:
    """Constants and kernels of the networks that read some parameters; made by `shared_state`.

    Of a model that came with several shapes dynamo has a graph of fixed shapes and one of symbols,
    whose weights are in memory once.

    Args:
        parameters: by their names; as they are now, they become constants.
        kernels: those of the networks that read the parameters before they were written.

    Attributes:
        constants: those of tensors that some network has, which holds these, by their identities.
        kernels: the kernels.
    """

    def __init__(self, parameters: Mapping[str, Any], kernels: SharedKernels) -> None:
        # They hold the parameters, so that no other tensor gets the identity of one, and are taken
        # before these are read.
        self._versions = Versions(watched(parameters))
        self.constants: MutableMapping[int, Constant] = WeakValueDictionary()
        self.kernels = kernels

    @property
    def is_outdated(self) -> bool:
        """Whether a parameter was written since it became a constant."""
        return self._versions.changed


def shared_state(program: Any, parameters: Iterable[Any]) -> SharedState:
    """Return what networks share that read the same parameters as a program, as they are now.

    Args:
        program: of torch.
        parameters: the model's; those that the program writes are inputs, and do not count.
    """
    read = {each.target for each in program.graph_signature.input_specs}
    models = set(map(id, parameters))
    tensors = {
        name: each for name, each in {**program.state_dict, **program.constants}.items()
        if name in read and id(each) in models
    }  # fmt: skip
    key = frozenset(map(id, tensors.values()))
    found = _known.get(key)
    if found is None or found.is_outdated:
        kernels = SharedKernels() if found is None else found.kernels
        found = _known[key] = SharedState(tensors, kernels)
    return found
