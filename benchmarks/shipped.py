"""Build an exported CUDA project, run it on a device, and compare its kernels with torch.

    python -m benchmarks.shipped h200.log --task gemm_nn.cuda [--arch sm_80]

Exports the log, builds the project with CMake (with the C compiler alone where there is no CMake),
runs its example, imports its Python package without autotune, and times it inside a CUDA graph.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

CHECK = """
import json, sys
sys.modules["autotune"] = None
import torch, tuned
for facts in tuned.FUNCTIONS:
    if not facts["task"].startswith("gemm_nn"):
        continue
    call = getattr(tuned, facts["python"])
    tuned.load()
    for one in facts["workloads"]:
        (m, n, k, *rest) = one["task_args"]
        dtype = getattr(torch, facts["arguments"][0]["dtype"])
        a, b = (torch.rand(s, device="cuda", dtype=dtype) - 0.5 for s in ((m, k), (k, n)))
        c = torch.zeros(m, n, device="cuda", dtype=dtype)
        call(a, b, c)
        torch.cuda.synchronize()
        error = ((c.double() - a.double() @ b.double()).abs().max() / k ** 0.5).item()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(20):
                call(a, b, c)
        graph.replay()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record(); graph.replay(); end.record(); end.synchronize()
        print(json.dumps({"workload": one["name"], "error": error,
                          "us in a graph": begin.elapsed_time(end) * 50,
                          "us in the log": one["seconds"] * 1e6}))
"""


def built(project: Path, folder: Path) -> Path:
    """Build the example, and return its path."""
    cmake = shutil.which("cmake")
    if cmake:
        subprocess.run([cmake, "-S", project, "-B", folder], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([cmake, "--build", folder], check=True, stdout=subprocess.DEVNULL)
        print("built with CMake")
        return folder / "example"
    folder.mkdir(parents=True, exist_ok=True)
    package = project / "python" / "tuned"
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    lib = next(
        each for each in (home / "lib64", home / "targets/x86_64-linux/lib") if each.exists()
    )
    command = ["cc", "-O2", project / "example/main.c", f"-I{project}/include",
               f"-I{home}/include", f"-L{package}", "-ltuned", f"-L{lib}", "-lcudart", "-lm",
               f"-Wl,-rpath,{package}:{lib}", "-o", folder / "example"]  # fmt: skip
    subprocess.run(command, check=True)
    print("built with cc: there is no CMake")
    return folder / "example"


def main(argv: Sequence[str] | None = None) -> None:
    """Export, build, run, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log")
    parser.add_argument("--task", action="append", default=[])
    parser.add_argument("--arch", action="append", default=[])
    given = parser.parse_args(argv)
    from autotune.cli.main import main as autotune

    with tempfile.TemporaryDirectory() as text:
        project = Path(text, "tuned")
        options = [f"--task={task}" for task in given.task]
        options += [f"--arch={arch}" for arch in given.arch]
        words = ["export", given.log, "--to", "c", "-o", str(project), *options]
        autotune(words, standalone_mode=False)
        example = built(project, Path(text, "build"))
        subprocess.run([example], check=True)
        path = os.pathsep.join([str(project / "python"), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path}
        subprocess.run([sys.executable, "-c", CHECK], env=environment, cwd=text, check=True)
        manifest = json.loads((project / "manifest.json").read_text())
        print(len(manifest["files"]), "files;", sorted(p.name for p in project.glob("kernels/*")))


if __name__ == "__main__":
    main()
