"""TVM's ``relay.vm``: the same compilation as `relay.build`, of networks of constant extents."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.target import Target
from autotune.tvm.relay.library import build
from autotune.tvm.runtime.vm import Executable, VirtualMachine

__all__ = ["Executable", "VirtualMachine", "compile"]


def compile(
    mod: object,
    target: str | Target | None = None,
    target_host: object = None,
    params: Mapping[str, object] | None = None,
) -> Executable:
    """Compile a network for `runtime.vm.VirtualMachine`.

    Args:
        mod: as of `relay.build`, as are the others.
        target: what for; by default the current target.
        target_host: accepted for TVM's scripts.
        params: numbers of the parameters, by name.

    Raises:
        GraphError: there is no target, or functions of the network cannot be compiled.
    """
    library = build(mod, target, target_host, params=params)
    return Executable(library.network, library.ir_mod, library.libmod_name)
