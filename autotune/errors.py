"""Every error that is raised to users, in one tree.

    AutotuneError
    ├── SpaceError            a knob or a configuration that does not fit its space
    ├── TemplateError         a template, task or workload that is unknown or ill-formed
    ├── InstantiationError    a configuration that this template cannot realise (trial error 1)
    ├── ExpressionError       a tensor expression that makes no sense
    ├── ScheduleError         a schedule primitive applied where it cannot be
    ├── GraphError            a network that makes no sense, or holds what is not supported
    ├── LoweringError         a schedule that cannot be turned into loops
    ├── TargetError           a target string, device or limit that is wrong
    ├── KernelError           a kernel called or described wrongly
    ├── CompileError          the compiler is missing or refused the source
    │   ├── CompilerMissing   there is no compiler; the message says what to install
    │   └── CompilerCrashed   it was killed or had no memory or disk left; a retry may work
    ├── CompileTimeout        the compiler took longer than it was given, and was killed
    ├── DeviceError           the device failed while it was used outside a trial
    ├── MeasureError          measuring could not start or go on
    │   └── FleetError        a fleet cannot be reached, has no worker for a trial, or has ended
    ├── RecordError           a log or record that cannot be read or written
    ├── LockError             a lock of kernels that cannot be read or written
    │   └── FrozenError       a kernel that is not the one that was locked
    └── TunerError            a tuner used wrongly

The failure of one trial during tuning is not an exception: it is a `MeasureResult` with an error
number. These classes are for mistakes made before a trial starts. Each also derives from the
built-in that AutoTVM raised at the same place, so that old ``except`` clauses keep working.
"""

from __future__ import annotations


class AutotuneError(RuntimeError):
    """Base of all errors that autotune raises on purpose; a RuntimeError, as ``TVMError`` is."""


class SpaceError(AutotuneError):
    """A knob definition or a configuration does not fit the space."""


class TemplateError(AutotuneError, ValueError):
    """A template, task or workload is unknown, duplicated or ill-formed."""


class InstantiationError(AutotuneError, ValueError):
    """A configuration cannot be realised: it breaks a limit of the target or of the template."""


class ExpressionError(AutotuneError, ValueError):
    """A tensor expression is ill-formed."""


class GraphError(AutotuneError, ValueError):
    """A graph of network operators is ill-formed, or holds what is not supported."""


class ScheduleError(AutotuneError, ValueError):
    """A schedule primitive cannot be applied."""


class LoweringError(AutotuneError):
    """A schedule cannot be turned into a loop nest."""


class TargetError(AutotuneError, ValueError):
    """A target is malformed, unknown, or missing."""


class KernelError(AutotuneError, ValueError):
    """A kernel was described or called with the wrong arguments."""


class CompileError(AutotuneError):
    """A compiler is missing or rejected the source; the message holds the compiler's own text."""


class CompilerMissing(CompileError):
    """No compiler was found; the message says where it was searched and what to install."""


class CompilerCrashed(CompileError):
    """The compiler died of something other than the source: a kill, no memory, a full disk.

    Attributes:
        killed: whether another process killed it, or a part of it.
    """

    def __init__(self, message: str, killed: bool = False) -> None:
        super().__init__(message)
        self.killed = killed


class CompileTimeout(AutotuneError, TimeoutError):
    """The compiler did not end in time and was killed with all its children."""


class DeviceError(AutotuneError):
    """A device failed or is missing, outside a tuning trial."""


class MeasureError(AutotuneError):
    """Measuring could not start or cannot go on."""


class FleetError(MeasureError):
    """A fleet cannot be reached, has no worker for a trial, or has ended."""


class RecordError(AutotuneError, ValueError):
    """A record or log cannot be read or written."""


class LockError(AutotuneError):
    """A lock of kernels cannot be read or written."""


class FrozenError(LockError):
    """In frozen mode a kernel differs from the locked one, or none is locked."""


class TunerError(AutotuneError, ValueError):
    """A tuner was given arguments it cannot work with."""
