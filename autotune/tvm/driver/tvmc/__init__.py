"""TVM's ``driver.tvmc``: load, tune, compile and run a model, each in one call."""

from autotune.tvm.driver.tvmc import autotuner, compiler, frontends, main, model, runner
from autotune.tvm.driver.tvmc.autotuner import tune_model as tune
from autotune.tvm.driver.tvmc.compiler import compile_model as compile
from autotune.tvm.driver.tvmc.frontends import load_model as load
from autotune.tvm.driver.tvmc.model import TVMCModel, TVMCPackage, TVMCResult
from autotune.tvm.driver.tvmc.runner import run_module as run

__all__ = [
    "TVMCModel",
    "TVMCPackage",
    "TVMCResult",
    "autotuner",
    "compile",
    "compiler",
    "frontends",
    "load",
    "main",
    "model",
    "run",
    "runner",
    "tune",
]
