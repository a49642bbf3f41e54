"""Processes start with empty packages: nothing that they may load uses a name from those."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import autotune
from autotune.measure.build import pool
from autotune.measure.run import device_process
from autotune.runtime.compile import nvrtc

ROOT = Path(autotune.__file__).parent
# Parts that are loaded by name, such as "autotune.runtime.nvidia.executable:CudaExecutable".
_NAMED = re.compile(r"^(autotune(?:\.\w+)+):\w+$")


def file_of(module):
    base = ROOT.joinpath(*module.split(".")[1:])
    return next((p for p in (base.with_suffix(".py"), base / "__init__.py") if p.exists()), None)


@cache
def imports(path):
    """Returns pairs of a module and a name taken from it, "" for none, wherever they stand."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found += [(name, "") for name in _NAMED.findall(node.value)]
    return [(module, name) for module, name in found if module.split(".")[0] == "autotune"]


def reached(module, bare):
    """Yields all modules that one may load, and the names they take of empty packages."""
    seen, waiting = set(), [module]
    while waiting:
        here = waiting.pop()
        if here in seen or here in bare or file_of(here) is None:
            continue
        seen.add(here)
        for other, name in imports(file_of(here)):
            parents = other.split(".")
            waiting += [".".join(parents[:i]) for i in range(1, len(parents) + 1)]
            inner = f"{other}.{name}"
            if name and file_of(inner):
                waiting.append(inner)
            elif name and other in bare:
                yield f"{here} takes {name} of {other}"


@pytest.mark.parametrize(
    ("module", "bare"),
    [
        (pool._MODULE, pool.BARE),
        (device_process._MODULE, device_process._BARE),
        (nvrtc._MODULE, nvrtc._BARE),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_process_takes_nothing_of_packages_that_are_empty_in_it(module, bare):
    assert not sorted(set(reached(module, ("autotune", *bare))))
