"""The time from `git clone` to a tuned kernel, without a GPU.

    python -m benchmarks.newcomer                  # clones this repository; wants an idle machine
    python -m benchmarks.newcomer --source URL     # clones that

Does what the README and the first pages of the book say, in a fresh clone and with nothing of this
environment: `make tune`, then the programs of the quick start and of the first two templates, then
a second template, which a reader wrote from the book alone (the exercise at the end of the first
one). pip may use its cache. What is printed are seconds of each, and since the beginning.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from docs.pages import blocks
from docs.pages import run as run_page

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("start", "first_cuda_template", "first_te_template")
_KEPT = ("HOME", "PATH", "LANG", "PIP_INDEX_URL", "PIP_CACHE_DIR", "SSL_CERT_FILE", "TMPDIR")

SECOND_CU = """
extern "C" __global__ void scale(const float* x, const float* s, float* y) {
  int row = blockIdx.y;
  int begin = (blockIdx.x * blockDim.x + threadIdx.x) * PER_THREAD;
  for (int k = 0; k < PER_THREAD; ++k) {
    int col = begin + k;
    if (col < N) y[row * N + col] = s[row] * x[row * N + col];
  }
}
"""
SECOND_PY = """
import sys
from pathlib import Path

import autotune


@autotune.template("scale_rows")
def scale_rows(m, n):
    cfg = autotune.get_config()
    cfg.define_knob("threads", [32, 64, 128])
    cfg.define_knob("per_thread", [1, 2, 4])
    cfg.add_bytes(2 * 4 * m * n + 4 * m)
    cfg.add_flop(m * n)
    threads, per_thread = cfg["threads"].val, cfg["per_thread"].val
    return autotune.SourceKernel(
        "scale",
        source=Path(__file__).with_name("scale.cu"),
        defines={"M": m, "N": n, "PER_THREAD": per_thread},
        grid=(-(-n // (threads * per_thread)), m),
        block=(threads,),
        args=[
            autotune.arg("x", (m, n)),
            autotune.arg("s", (m,)),
            autotune.arg("y", (m, n), role="out"),
        ],
        reference=lambda x, s: s[:, None] * x,
    )


if __name__ == "__main__":
    task = autotune.create("scale_rows", args=(6, 100), target="cuda -emulate")
    option = autotune.measure_option("local", "local")
    logged = [autotune.callback.log_to_file(sys.argv[1])]
    print(autotune.tuner.AutoTuner(task, seed=0).tune(6, option, callbacks=logged))
"""


class Watch:
    """Prints how long each thing took."""

    def __init__(self) -> None:
        self._began = self._last = time.monotonic()

    def lap(self, what: str) -> None:
        """Print the seconds since the last one, and since the beginning."""
        now = time.monotonic()
        print(f"{now - self._last:7.1f} s  {now - self._began:7.1f} s in all  {what}", flush=True)
        self._last = now


def run(line: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command as a shell would, and return what it printed.

    Raises:
        SystemExit: it failed.
    """
    done = subprocess.run(
        line, shell=True, cwd=folder, env=dict(environment), text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{line}: status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def newcomer(source: str, folder: Path) -> None:
    """Do all of it in an empty folder."""
    bare = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment = {**bare, "CUDA_VISIBLE_DEVICES": "", "XDG_CACHE_HOME": str(folder / "cache")}
    if "PIP_CACHE_DIR" not in environment:
        environment["PIP_CACHE_DIR"] = str(Path.home() / ".cache" / "pip")
    watch, clone = Watch(), folder / "autotune"
    run(f"git clone -q {source} {clone}", folder, environment)
    watch.lap("git clone")
    tuned = run(f"make tune PYTHON={sys.executable}", clone, environment)
    watch.lap("make tune: a tuned, replayed and verified convolution")
    print("\n".join(f"    {line}" for line in tuned.splitlines()[-12:]))
    environment["PATH"] = f"{clone / '.venv' / 'bin'}{os.pathsep}{environment['PATH']}"
    for name in PAGES:
        _page(clone / "docs" / f"{name}.md", folder / name, environment)
        watch.lap(f"all programs of docs/{name}.md")
    second = folder / "second"
    second.mkdir()
    (second / "scale.cu").write_text(SECOND_CU)
    (second / "scale_rows.py").write_text(SECOND_PY)
    run("python scale_rows.py scale.log", second, environment)
    whole = SECOND_CU.replace("if (col < N) ", "")
    assert whole != SECOND_CU
    (second / "scale.cu").write_text(whole)
    broken = run("python scale_rows.py broken.log", second, environment)
    assert "6 of 6 trials failed" in broken, broken
    watch.lap("the second template, and broken as the page says")


def _page(page: Path, folder: Path, environment: Mapping[str, str]) -> None:
    """Run the programs and commands of a page in a folder, each Python block with those before."""
    folder.mkdir()
    code: list[str] = []

    def python(block: str) -> str:
        code.append(block)
        (folder / "typed.py").write_text("\n".join(code))
        return run("python typed.py", folder, environment)

    found = blocks(page.read_text("utf-8"))
    list(run_page(found, folder, python, lambda line: run(line, folder, environment)))


def main() -> None:
    """Do it, and clean up."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--source", default=str(ROOT), help="the repository, a path or URL")
    folder = Path(tempfile.mkdtemp(prefix="newcomer-"))
    try:
        newcomer(parser.parse_args().source, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
