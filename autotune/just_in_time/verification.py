"""Verification of configurations that were tuned for other shapes.

A template may rely on tuning to reject configurations that do not fit a shape: one that was
checked for 16384 elements may access memory out of bounds with 100. So before a configuration is
used for a shape, it runs once like a trial: in a process of its own, with guards, and its answer
is compared with the reference. The verdict on the resulting kernel is kept in the cache folder.
"""

from __future__ import annotations

import hashlib
import logging
import time
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from pathlib import Path

from autotune.driver import kernel_hash
from autotune.errors import AutotuneError
from autotune.measure import LocalBuilder, LocalRunner, MeasureErrorNo, MeasureResult, Session
from autotune.task import ConfigEntity, Task
from autotune.utils import environment
from autotune.utils.files import write_atomically
from autotune.version import __version__

logger = logging.getLogger("autotvm")

_RIGHT = "right"


def remembered(task: Task, config: ConfigEntity) -> str | None:
    """Return ``"right"``, or why a configuration is not used for a task; None if it is not known.

    Raises:
        AutotuneError: the template makes no kernel of it.
    """
    with suppress(OSError, UnicodeDecodeError):
        return _path(task, config).read_text("utf-8").strip() or None
    return None


def is_known_right(task: Task, config: ConfigEntity) -> bool:
    """Return whether a configuration was checked for a task before, and is right.

    Raises:
        AutotuneError: the template makes no kernel of it.
    """
    return remembered(task, config) == _RIGHT


def is_right(task: Task, config: ConfigEntity, limit_s: float) -> bool:
    """Return whether a configuration is right for a task; check it if that is not known.

    Args:
        limit_s: what takes longer to check is not used.

    Raises:
        AutotuneError: the template makes no kernel of it.
    """
    known = remembered(task, config)
    if known is None:
        known = _checked(task, config, limit_s)
        logger.info("%s%s: a configuration of other shapes: %s", task.name, task.args, known)
    return known == _RIGHT


def _checked(task: Task, config: ConfigEntity, limit_s: float) -> str:
    """Run a configuration once, and keep the verdict."""
    try:
        result = _measured(task, config, limit_s)
    except NotInTime:
        found = f"checking it took longer than {limit_s:g} s"
    except (AutotuneError, OSError, RuntimeError, AssertionError) as error:
        # Here no process can be started, or no device be opened: that says nothing of the kernel.
        logger.warning("%s: cannot be checked, the default is used: %s", task.name, error)
        return f"not checked: {error}"
    else:
        found = _told(result)
        if result.error_no == MeasureErrorNo.UNKNOWN_ERROR:
            return found
    with suppress(OSError):
        path = _path(task, config)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, f"{found}\n".encode())
    return found


def _measured(task: Task, config: ConfigEntity, limit_s: float) -> MeasureResult:
    end = time.monotonic() + limit_s
    runner = LocalRunner(number=1, repeat=1, cooldown_interval=0)
    with Session(LocalBuilder(n_parallel=1), runner) as session:
        (future,) = session.submit(task, [config])
        return future.result(max(0.0, end - time.monotonic()))


def _told(result: MeasureResult) -> str:
    if result.error_no != MeasureErrorNo.NO_ERROR:
        message = " ".join(result.error_msg.split())
        return f"{MeasureErrorNo(result.error_no).name}: {message[:300]}"
    return _RIGHT if result.evidence.verified else "its template has no reference that tells"


def _path(task: Task, config: ConfigEntity) -> Path:
    target = task.target
    assert target is not None, "made with one"
    made = kernel_hash(task.instantiate(config), target) or f"{task.key} {config.index}"
    facts = "\0".join((__version__, task.name, str(task.args), str(target), made))
    digest = hashlib.sha256(facts.encode("utf-8", "replace")).hexdigest()[:32]
    return environment.cache_dir() / "jit" / "checked" / digest
