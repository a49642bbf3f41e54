"""A built function as users hold it: call it, time it, read its source, keep it in a file."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from pathlib import Path

from autotune.errors import KernelError
from autotune.kernel.entry import identifier
from autotune.kernel.kernel import Kernel, Scalar
from autotune.kernel.limits import launch_violation
from autotune.runtime.arrays.bind import bind
from autotune.runtime.arrays.buffers import Buffers
from autotune.runtime.arrays.sizes import with_sizes
from autotune.runtime.call.dispatch import CallDispatch
from autotune.runtime.call.native import call_by_slot
from autotune.runtime.call.overlap import require_apart, require_results_apart
from autotune.runtime.compile.compile_kernel import compile_kernel
from autotune.runtime.device import Device, device
from autotune.runtime.device_module import DeviceFile, DeviceModule
from autotune.runtime.evaluator import BenchmarkResult, evaluator_options
from autotune.runtime.executable import Executable
from autotune.runtime.export import pack, unpack
from autotune.runtime.load import load
from autotune.runtime.timing import TimeOptions
from autotune.target import Target
from autotune.utils.check import Check
from autotune.utils.files import remove_own
from autotune.utils.scratch import kept_folder, temporary_folder

# Kernels of other sizes that stay loaded.
_MOST_LOADED = 8
_TIMEOUT_S = 600.0
# Forms of code that do not hold a whole function.
_TEXTS = ("ll", "bc", "s", "asm", "c", "cu", "ptx")


class Module:
    """A built function. Made by `autotune.build` and `load_module`.

    It is loaded at its first call, so that building needs no device. A call takes one array for
    each argument: an `NDArray`, an array of numpy, a tensor of torch, or any object with
    ``__dlpack__``.

    On a GPU, a call is queued on the caller's current stream and returns; it may be captured into
    a CUDA graph. If arrays have to be copied, such as those of numpy, it returns when the results
    are complete, and so it always does on the CPU. Any thread may call.

    Args:
        kernel: the kernel.
        target: the target.
        artifact: the bytes of the cubin or shared object.
        suffix: the kind of the artifact, ``".cubin"`` or ``".so"``.
        resources: registers, shared bytes, ... as reported by the compiler.

    Example::

        func = autotune.build(s, [A, B, C], target="cuda", name="matmul")
        func(a, b, c)
        print(func.time_evaluator(func.entry_name, dev, number=10)(a, b, c).mean)
    """

    # The launcher of calls reads `_call` at its offset.
    __slots__ = ("__dict__", "__weakref__", "_call")

    def __init__(
        self,
        kernel: Kernel,
        target: Target,
        artifact: bytes,
        suffix: str,
        resources: dict[str, int] | None = None,
    ) -> None:
        self.kernel = kernel
        self.target = target
        self.artifact = artifact
        self.suffix = suffix
        self.resources = dict(resources or {})
        self._executables: dict[tuple[object, ...], Executable] = {}
        self._call: Callable[..., None] | None = None

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.kernel.name

    @property
    def entry_name(self) -> str:
        """Name of the function, by which `time_evaluator` is asked for it."""
        return self.kernel.name

    @property
    def entry_func(self) -> Module:
        """The function itself: a module has one."""
        return self

    @property
    def type_key(self) -> str:
        """What TVM calls a module of machine code: ``"library"``; see `imported_modules` too."""
        return "library"

    @property
    def format(self) -> str:
        """What TVM calls the form of its text: empty, as it is machine code."""
        return ""

    @property
    def is_runnable(self) -> bool:
        """Whether it can be called: it can."""
        return True

    @property
    def is_dso_exportable(self) -> bool:
        """Whether `export_library` writes it to a file: it does."""
        return True

    @property
    def is_binary_serializable(self) -> bool:
        """Whether TVM would write it into another library as bytes: machine code is not."""
        return False

    @property
    def device(self) -> Device:
        """The device that it runs on."""
        return device(self.target)

    @property
    def imported_modules(self) -> list[DeviceModule]:
        """The device code in it, as TVM's modules give it."""
        return [DeviceModule(self.kernel, self.target)]

    @property
    def executable(self) -> Executable:
        """The loaded kernel.

        Raises:
            KernelError: the function has open sizes, and is loaded for each when it is called.
            DeviceError: there is no device for the function.
        """
        if self.kernel.sizes is not None:
            raise KernelError(f"{self.name}: it is loaded when it is called: its sizes are open")
        return self._loaded(self.kernel)

    def _loaded(self, kernel: Kernel) -> Executable:
        """Return the executable of the kernel, or of one that it is with its sizes put in."""
        key = tuple(a.value if isinstance(a, Scalar) else a.shape for a in kernel.args)
        found = self._executables.pop(key, None)
        if found is None:
            self._check_launch(kernel)
            found = self._load(kernel)
            while len(self._executables) >= _MOST_LOADED:
                self._executables.pop(next(iter(self._executables))).close()
        self._executables[key] = found
        return found

    def _check_launch(self, kernel: Kernel) -> None:
        """Raise if sizes ask for more blocks than there can be; else building has checked it."""
        found = launch_violation(kernel, self.target.limits) if kernel is not self.kernel else None
        if found is not None:
            raise KernelError(f"{self.name}: {found}")

    def _load(self, kernel: Kernel) -> Executable:
        folder = kept_folder("load")
        remove = weakref.finalize(self, remove_own, folder, os.getpid())
        path = Path(folder, f"{identifier(self.name)}{self.suffix}")
        path.write_bytes(self._artifact_of(kernel))
        found = load(path, kernel, self.device)
        if not self.target.emulate:  # the emulator looks its lines up in the file
            remove()
        return found

    def _artifact_of(self, kernel: Kernel) -> bytes:
        """Return the machine code; an emulated launch is part of it, so sizes are."""
        if not self.target.emulate or kernel is self.kernel:
            return self.artifact
        with temporary_folder("build") as folder:
            output = compile_kernel(kernel, self.target, timeout_s=_TIMEOUT_S, out_dir=folder)
            return Path(output.artifact).read_bytes()

    def __call__(self, *args: object, stream: object = None) -> None:
        """Run once on these arrays.

        Args:
            args: one array or number for each argument.
            stream: the CUDA stream to put it on: torch's, CuPy's, PyCUDA's, or its handle. By
                default the current one of the library that the arrays are of; for arrays of ours,
                torch's or CuPy's if they are loaded, else the default stream.

        Raises:
            KernelError: they do not fit the arguments.
            DeviceError: the kernel, or something before it on the device, failed.
        """
        call = self._call or self._callable()
        if stream is None:
            call(*args)
        else:
            call(*args, stream=stream)

    def _callable(self) -> Callable[..., None]:
        """Return what calls; two threads may both make one, either serves."""
        self._call = CallDispatch(
            self.kernel, self.target, self.device, self._checked_artifact, self._load
        ).call
        call_by_slot(Module, "_call")
        return self._call

    def _checked_artifact(self, kernel: Kernel) -> bytes:
        self._check_launch(kernel)
        return self._artifact_of(kernel)

    def __getitem__(self, name: str) -> Module:
        """Return the function called ``name``.

        Raises:
            KernelError: it has another name.
        """
        self._check_name("name", name)
        return self

    def _check_name(self, argument: str, name: str) -> None:
        if not isinstance(name, str) or name != self.kernel.name:
            expected = f"{self.kernel.name!r}, the module has one function"
            Check(KernelError, f"module {self.name}").refuse(argument, expected, name)

    def get_function(self, name: str, query_imports: bool = False) -> Module:
        """Return the function called ``name``; ``query_imports`` is accepted for TVM scripts."""
        return self[name]

    def get_source(self, fmt: str = "") -> str:
        """Return the source text; see `DeviceModule.get_source`."""
        return DeviceModule(self.kernel, self.target).get_source(fmt)

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: float = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str = "",
        ctx: Device | None = None,
    ) -> Callable[..., BenchmarkResult]:
        """Return a function that takes the arrays and times the kernel on them.

        Args:
            func_name: `entry_name`.
            dev: the device of the module; ``ctx`` is the same by TVM's old name.
            number: runs in one measurement, after a first one that is not counted.
            repeat: how many measurements.
            min_repeat_ms: least milliseconds of one; ``number`` is raised for it.
            limit_zero_time_iterations: accepted for TVM scripts; raising always ends.
            cooldown_interval_ms: pause between measurements.
            repeats_to_cooldown: after how many of them.
            cache_flush_bytes: if not 0, every run finds cold caches.
            f_preproc: ``"cache_flush_cpu_non_first_arg"`` means cold caches as well.

        The function that is returned takes what a call takes, and refuses what a call refuses.

        Raises:
            KernelError: the function or the device is another, or a number is out of range.
        """
        self._check_name("func_name", func_name)
        where = ctx if dev is None else dev
        if where is not None and where != self.device:
            expected = f"{self.device}, where {self.name} runs"
            Check(KernelError, "time_evaluator").refuse("dev", expected, where)
        options = evaluator_options(
            number,
            repeat,
            min_repeat_ms,
            limit_zero_time_iterations,
            cooldown_interval_ms,
            repeats_to_cooldown,
            cache_flush_bytes,
            f_preproc,
        )
        return lambda *args: self._evaluated(args, options)

    def _evaluated(self, args: tuple[object, ...], options: TimeOptions) -> BenchmarkResult:
        kernel, values = with_sizes(self.kernel, args)
        self.device.sync()  # the timed runs do not wait for streams of others
        bound = bind(kernel, values, self.device)
        require_apart(kernel, bound.arrays)
        if bound.copied:
            require_results_apart(kernel, values)
        buffers = Buffers.of(kernel.args, self.device, bound.arrays)
        timing = self._loaded(kernel).time(buffers, options)
        bound.finish()
        return BenchmarkResult(timing.samples_s, timing)

    def export_library(
        self, path: str | os.PathLike[str], fcompile: object = None, **options: object
    ) -> None:
        """Write the built function to one file, from which `load_module` makes it again.

        It holds host and device code, so TVM's ``import_module`` is not needed.

        Args:
            path: where to.
            fcompile, options: accepted for TVM scripts; everything is compiled.

        Raises:
            KernelError: no file can be written there.
        """
        check = Check(KernelError, f"{self.name}: export_library")
        check.path("path", path)
        try:
            self._pack(Path(path))
        except OSError as error:
            raise KernelError(
                f"{self.name}: export_library: cannot write {os.fspath(path)}: {error.strerror}"
            ) from error

    def _pack(self, path: Path) -> None:
        pack(path, self.kernel, self.target, self.artifact, self.suffix, self.resources)

    export = export_library

    def save(self, file_name: str | os.PathLike[str], fmt: str = "") -> None:
        """Do what `export_library` does; TVM's scripts write an object file so.

        Raises:
            KernelError: another form is asked for, or no file can be written there.
        """
        check = Check(KernelError, f"{self.name}: save")
        form = fmt or Path(check.path("file_name", file_name)).suffix.removeprefix(".")
        if form in _TEXTS:
            check.refuse(
                "file_name", "a name such as 'function.o' (get_source() is the text)", form
            )
        self.export_library(file_name)

    def import_module(self, module: object) -> None:
        """Accept the device code of the function, which it holds already; for scripts of TVM.

        Raises:
            KernelError: it is something else, or the code of another function, or was edited.
        """
        check = Check(KernelError, f"module {self.name}")
        expected = "the device code of the function, as load_module('function.ptx') gives it"
        if not isinstance(module, DeviceFile | DeviceModule):
            check.refuse("module", expected, module)
        elif not module.is_of(self.kernel):
            check.refuse("module", expected, "other code, or code that was changed")

    def __copy__(self) -> Module:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Module:
        """Return the function itself, as of a function of Python: it does not change."""
        return self

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the data of the function; a copy is loaded at its first call."""
        return Module, (self.kernel, self.target, self.artifact, self.suffix, self.resources)

    def __repr__(self) -> str:
        return f"Module({self.kernel.name!r}, target={str(self.target)!r})"


def load_module(path: str | os.PathLike[str]) -> Module:
    """Return a function that `Module.export_library` wrote.

    The file holds machine code, which runs in this process: load only files that you trust.

    Raises:
        KernelError: the file is missing or is not one of these.
    """
    return Module(*unpack(path))
