"""A process that is forked, and ends first, leaves the temporary files of its parent alone."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
MADE = {
    "of a script": """
        from autotune.tvm.contrib.utils import tempdir
        owner = tempdir()
        folder = owner.temp_dir
    """,
    "of a live page": """
        from autotune.tuner.display.page import LivePage
        owner = LivePage()
        folder = owner._log.parent
    """,
    "of an emulated kernel": """
        import glob, tempfile
        import autotune
        source = 'extern "C" __global__ void one(float *y) { y[0] = 1; }'
        out = autotune.arg("y", (1,), role="out")
        kernel = autotune.SourceKernel("one", source=source, grid=1, block=1, args=[out])
        with autotune.Target("cuda -emulate"):
            owner = autotune.build(kernel)
        owner.executable
        [folder] = glob.glob(f"{tempfile.gettempdir()}/autotune-scratch-kept-*/load-*")
    """,
}
FORKS = """
import os, sys
if os.fork() == 0:
    sys.exit()
os.wait()
print(folder)
print(os.path.isdir(folder))
"""


@pytest.mark.parametrize("owner", MADE)
def test_a_fork_that_ends_leaves_the_folder(owner, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    text = textwrap.dedent(MADE[owner]) + FORKS
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    folder, was_there = done.stdout.splitlines()
    assert was_there == "True"
    assert not Path(folder).exists()  # its maker took it along
