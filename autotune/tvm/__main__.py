"""``python -m autotune.tvm script.py [arguments]`` runs a script of TVM as it is.

``-m module`` instead of a script runs a module, as Python does.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from autotune.tvm.serve import serve_tvm

_USAGE = "usage: python -m autotune.tvm (SCRIPT.py | -m MODULE) [ARGUMENT ...]"


def main(argv: list[str]) -> None:
    """Run a script or a module in which ``import tvm`` gives `autotune.tvm`.

    Raises:
        SystemExit: nothing to run was named, or there is no such file; and what the script raises.
    """
    if argv[:1] in (["-h"], ["--help"]):
        print(f"{__doc__}\n{_USAGE}")
        return
    if not argv or argv == ["-m"]:
        raise SystemExit(_USAGE)
    if argv[0] == "-m":
        sys.argv = argv[1:]
        serve_tvm()
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        return
    script = Path(argv[0])
    if not script.is_file():
        raise SystemExit(f"python -m autotune.tvm: there is no file {argv[0]!r}; {_USAGE}")
    sys.argv = argv
    sys.path.insert(0, str(script.resolve().parent))
    serve_tvm()  # before the folder: a tvm in it, such as TVM's checkout, is not meant
    runpy.run_path(str(script.absolute()), run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
