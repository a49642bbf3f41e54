"""A kernel that is loaded and ready to run on one device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from autotune.emulator.stop import StopFlag
from autotune.errors import KernelError
from autotune.kernel.kernel import Constant, Kernel
from autotune.runtime.arrays.array import HostArray, NDArray, empty
from autotune.runtime.arrays.buffers import Buffers
from autotune.runtime.device import Device
from autotune.runtime.timing import Sampler, TimeOptions, Timing, take_timing
from autotune.utils.check import Check


class Executable(ABC):
    """A loaded kernel. Made by `autotune.runtime.load`; `close` it, or use it in ``with``.

    Attributes:
        kernel: what was loaded.
        device: where it runs.

    Raises:
        KernelError: sizes of the kernel are open.
    """

    def __init__(self, kernel: Kernel, device: Device) -> None:
        if kernel.sizes is not None:
            raise KernelError(
                f"kernel {kernel.name!r}: its sizes {', '.join(kernel.sizes.names)} are open; put "
                "them in by Kernel.at"
            )
        self.kernel = kernel
        self.device = device
        self.workspaces = self.new_workspaces()

    def new_workspaces(
        self, allocate: Callable[[Sequence[int], str], NDArray] | None = None
    ) -> dict[str, NDArray]:
        """Return memory for the values between the calls of the kernel, by name."""
        make = allocate or partial(empty, device=self.device)
        return {w.name: make(w.shape, w.dtype) for w in self.kernel.workspace}

    def allocate(self, inputs: Sequence[HostArray] | None = None, seed: int = 0) -> Buffers:
        """Return buffers for the arguments: inputs given or random, outputs poisoned."""
        return Buffers(self.kernel.args, self.device, inputs, seed)

    def run(self, buffers: Buffers) -> None:
        """Run once on the first set of ``buffers``, and wait for the end.

        Raises:
            DeviceError: the launch failed or the kernel faulted.
        """
        self._check(buffers)
        self.call(buffers.sets[0])

    @abstractmethod
    def call(self, arrays: Sequence[NDArray]) -> None:
        """Run once on ``arrays``, which fit the arguments, and wait for the end."""

    def queue_call(self, arrays: Sequence[NDArray]) -> None:
        """Start a run on ``arrays``; later reads of these wait for its end."""
        self.call(arrays)

    @abstractmethod
    def fill_constants(self, arrays: Sequence[NDArray]) -> None:
        """Copy the values of the constants among ``arrays`` to where the kernel finds them."""

    def obey(self, stop: StopFlag, limit_s: float) -> None:  # noqa: B027 - most cannot
        """Let runs be stopped with a report; does nothing for kernels that cannot be.

        Args:
            stop: stops whatever runs while it is set.
            limit_s: seconds without a sign of progress after which a run is stopped anyway; 0 for
                no limit.
        """

    @abstractmethod
    def sampler(self, buffers: Buffers, options: TimeOptions) -> Sampler:
        """Return a sampler, which takes single samples, for timing kernels interleaved."""

    def time(self, buffers: Buffers, options: TimeOptions | None = None) -> Timing:
        """Time the kernel on ``buffers``; afterwards outputs hold the last run's values."""
        chosen = TimeOptions() if options is None else options
        Check(KernelError, "time").kind("options", chosen, TimeOptions, "TimeOptions")
        self._check(buffers)
        return take_timing(self.sampler(buffers, chosen), chosen)

    def close(self) -> None:
        """Give back what the kernel holds on the device."""
        self.workspaces.clear()

    def __enter__(self) -> Executable:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, buffers: Buffers) -> None:
        what = f"kernel {self.kernel.name!r}"
        Check(KernelError, what).kind("buffers", buffers, Buffers, "the Buffers of allocate()")
        if buffers.device != self.device or buffers.args != self.kernel.args:
            raise KernelError(
                f"kernel {self.kernel.name!r}: the buffers were made for other arguments or for "
                f"{buffers.device}; make them with allocate() of a kernel with the same arguments"
            )

    def constants(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        """Return those of ``arrays`` that belong to constants."""
        pairs = zip(self.kernel.args, arrays, strict=True)
        return [one for a, one in pairs if isinstance(a, Constant)]

    def arguments(
        self, arrays: Sequence[NDArray], workspaces: Mapping[str, NDArray] | None = None
    ) -> list[list[int]]:
        """Return, for each call of the kernel, the addresses of what it takes.

        Those of scalars are in host memory. ``workspaces`` are the executable's own by default.
        """
        where = {a.name: one.pointer for a, one in zip(self.kernel.args, arrays, strict=True)}
        own = self.workspaces if workspaces is None else workspaces
        where |= {name: one.pointer for name, one in own.items()}
        return [[where[name] for name in one.args] for one in self.kernel.calls]


def timed_alone(buffers: Buffers, options: TimeOptions) -> bool:
    """Returns whether each run is timed by itself, since something is done before it."""
    return options.flush_cache or buffers.has_inout
