"""Creating tasks of TVM's own templates, which `import tvm` registers there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

from autotune import task
from autotune.target import Target
from autotune.task import TASK_TABLE, Task

_LIBRARY = "autotune.templates"


def create(
    task_name: str | Callable[..., object],
    args: Sequence[object],
    target: str | Target | None = None,
    target_host: str | Target | None = None,
    template_key: object = None,
) -> Task:
    """Make a task: `autotune.create`, with the templates of autotune under TVM's names.

    These, such as ``conv2d_nchw.cuda``, are loaded if the name is that of an operator for a kind
    of target and nobody has registered it.
    """
    operator = isinstance(task_name, str) and "." in task_name
    if operator and task_name not in TASK_TABLE:
        import_module(_LIBRARY)
    return task.create(task_name, args, target, target_host, template_key)
