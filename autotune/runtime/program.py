"""Several kernels that run one after another on fixed arrays, without Python in between."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from autotune.errors import DeviceError
from autotune.runtime.arrays.array import NDArray
from autotune.runtime.arrays.memory import Block
from autotune.runtime.device import Device
from autotune.runtime.executable import Executable
from autotune.runtime.timing import Sampler
from autotune.target.backends import of_device, part


@dataclass(frozen=True)
class ProgramStep:
    """One kernel, the arrays that it runs on, and the memory between its calls, by name."""

    executable: Executable
    arrays: tuple[NDArray, ...]
    workspaces: Mapping[str, NDArray] = field(default_factory=dict)


class Program(ABC):
    """Kernels in order. Made by `program_of`.

    Attributes:
        steps: what runs.
    """

    def __init__(self, steps: Sequence[ProgramStep]) -> None:
        self.steps = tuple(steps)

    def run(self) -> None:
        """Run all steps once, and wait for the end.

        Raises:
            DeviceError: a kernel failed.
        """
        self.start()
        self.wait()

    @abstractmethod
    def start(self, stream: object = None) -> None:
        """Start to run all steps once; on a CPU, run them.

        Args:
            stream: a stream of torch, CuPy or PyCUDA, or its handle; by default the program's own.
                Runs of a program never overlap, even on different streams.

        Raises:
            DeviceError: a kernel failed, or the device has no streams.
            KernelError: the value is not a stream.
        """

    def add_to_capture(self, stream: int) -> None:
        """Add a run to the CUDA graph into which a stream is captured.

        What it runs on is kept until that graph and all its copies are destroyed. Graphs may be
        replayed at any time, so nothing else may run on these arrays.

        Raises:
            DeviceError: the stream is not captured, or the device has no streams.
        """
        raise DeviceError(
            f"expected a program on a device with streams, got {type(self).__name__}"
        )

    @abstractmethod
    def rebind(self, steps: Mapping[int, ProgramStep]) -> None:
        """Let steps run on other arrays from the next run on.

        Args:
            steps: the same kernels as before, by their numbers.

        Raises:
            DeviceError: the device refuses it.
        """

    @abstractmethod
    def wait(self) -> None:
        """Wait until what was begun has ended.

        Raises:
            DeviceError: a kernel failed.
        """

    @abstractmethod
    def step_seconds(self) -> list[float]:
        """Run all steps once, one by one; return the seconds of each."""

    @abstractmethod
    def sampler(self) -> Sampler:
        """Return a sampler of whole runs."""


def view(block: NDArray, offset: int, shape: Sequence[int], dtype: str) -> NDArray:
    """Return an array within the memory of another one, which it keeps alive.

    Raises:
        DeviceError: it does not fit.
    """
    array = NDArray(block.device, shape, dtype, Block(block.pointer + offset, 0, block))
    if offset < 0 or offset + array.nbytes > block.nbytes:
        raise DeviceError(
            f"view: {array.nbytes} bytes at {offset} do not fit into the {block.nbytes} of {block}"
        )
    return array


def program_of(steps: Sequence[ProgramStep], device: Device, branches: bool = False) -> Program:
    """Return the program of some steps on a device.

    On the CPU one call of a C function runs all kernels; on a GPU they are one CUDA graph, in
    which with ``branches`` those run side by side that do not depend on one another.
    """
    backend = of_device(device.kind)
    if backend is None:
        raise DeviceError(f"{device}: expected a device that kernels run on")
    make: Callable[[Sequence[ProgramStep], Device, bool], Program] = part(backend.program)
    return make(steps, device, branches)
