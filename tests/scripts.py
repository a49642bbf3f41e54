"""Scripts of AutoTVM: their import lines changed, and run in a process of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import autotune


def rewritten(line):
    """Change an import line as docs/migrating.md says."""
    if line in ("import tvm", "import tvm as tvm"):
        return "from autotune import tvm"
    return re.sub(r"^(import|from) tvm\b", r"\1 autotune.tvm", line)


def run_python(*arguments, cwd=None):
    ended = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(autotune.__file__).parent.parent)},
    )
    assert ended.returncode == 0, ended.stderr
    return ended
