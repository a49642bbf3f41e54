"""TVM's command ``tvmc``: ``python -m autotune.tvm -m tvm.driver.tvmc compile model.onnx ...``."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence

import numpy as np

from autotune.errors import AutotuneError, GraphError
from autotune.tvm.driver.tvmc.autotuner import TUNERS, tune_model
from autotune.tvm.driver.tvmc.compiler import compile_model
from autotune.tvm.driver.tvmc.frontends import load_model
from autotune.tvm.driver.tvmc.model import TVMCPackage, TVMCResult
from autotune.tvm.driver.tvmc.runner import run_module

_SHAPE = re.compile(r"""['"]?([\w.:/-]+?)['"]?\s*:\s*\[([\d,\s]*)\]""")


def parse_shape_string(text: str) -> dict[str, list[int]]:
    """Return extents of inputs by name: ``"data:[1,3,224,224] mask:[1,8]"``.

    Raises:
        GraphError: the text is none of these.
    """
    if re.sub(r"[\s,]", "", _SHAPE.sub("", text)):
        raise GraphError(f"--input-shapes: expected such as 'data:[1,3,224,224]', got {text!r}")
    return {
        name: [int(n) for n in extents.split(",") if n.strip()]
        for name, extents in _SHAPE.findall(text)
    }


def _shapes(text: str) -> dict[str, list[int]]:
    try:
        return parse_shape_string(text)
    except GraphError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("--input-shapes: ")) from None


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit status."""
    options = _parser().parse_args(argv)
    try:
        options.do(options)
    except AutotuneError as error:
        print(f"tvmc: {error}", file=sys.stderr)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("tvmc", description="Tune, compile and run models.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, do, told in (
        ("tune", _tune, "tune the kernels of a model"),
        ("compile", _compile, "compile a model to a package"),
        ("run", _run, "run a package"),
    ):
        command = commands.add_parser(name, help=told)
        command.set_defaults(do=do)
        command.add_argument("FILE", help="a package" if name == "run" else "a model")
        if name != "run":
            command.add_argument("--target", required=True, help="what for")
            command.add_argument("--input-shapes", type=_shapes, metavar="NAME:[N,..]")
            command.add_argument("--model-format", choices=["onnx", "pytorch"])
            command.add_argument("--tuning-records", metavar="PATH", help="an earlier log")
            command.add_argument("--desired-layout", help="accepted: layouts are chosen")
            command.add_argument("--target-host", help="accepted")
        if name != "compile":
            command.add_argument("--repeat", type=_count, help="measurements")
            command.add_argument("--number", type=_count, help="runs in each")
        {"tune": _tune_options, "compile": _compile_options, "run": _run_options}[name](command)
    return parser


def _tune_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("-o", "--output", required=True, metavar="PATH", help="the log")
    command.add_argument("--trials", type=_count, default=1000)
    command.add_argument("--tuner", choices=[*TUNERS], default="xgb")
    command.add_argument("--enable-autoscheduler", action="store_true")
    command.add_argument("--early-stopping", type=int)
    command.add_argument("--min-repeat-ms", type=float)
    command.add_argument("--timeout", type=float, default=10, help="seconds of a trial")
    command.add_argument("--parallel", type=int, help="processes that compile")
    command.add_argument("--include-simple-tasks", action="store_true")


def _compile_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("-o", "--output", default="module.tar", metavar="PATH")
    command.add_argument("-f", "--output-format", choices=["so", "tar"], default="so")
    command.add_argument("-O", "--opt-level", type=int, choices=range(4), default=3)
    command.add_argument("--dump-code", default="", metavar="FORMAT,..")


def _run_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--device", default="cpu", help="where: cpu, cuda")
    command.add_argument("-i", "--inputs", metavar="NPZ", help="arrays by name")
    command.add_argument("-o", "--outputs", metavar="NPZ", help="where outputs go")
    command.add_argument("--fill-mode", choices=["random", "zeros", "ones"], default="random")
    command.add_argument("--print-top", type=_count, metavar="N", help="greatest outputs")
    command.add_argument("--print-time", action="store_true")
    command.add_argument("--end-to-end", action="store_true")


def _tune(options: argparse.Namespace) -> None:
    model = load_model(options.FILE, options.model_format, options.input_shapes)
    tune_model(
        model, options.target, options.output, options.tuning_records,
        options.enable_autoscheduler, trials=options.trials, tuner=options.tuner,
        min_repeat_ms=options.min_repeat_ms, early_stopping=options.early_stopping,
        timeout=options.timeout, repeat=options.repeat, number=options.number,
        parallel=options.parallel, include_simple_tasks=options.include_simple_tasks,
    )  # fmt: skip


def _compile(options: argparse.Namespace) -> None:
    model = load_model(options.FILE, options.model_format, options.input_shapes)
    compile_model(
        model, options.target, options.opt_level, tuning_records=options.tuning_records,
        package_path=options.output, output_format=options.output_format,
        dump_code=[each for each in options.dump_code.split(",") if each],
    )  # fmt: skip


def _run(options: argparse.Namespace) -> None:
    result = run_module(
        TVMCPackage(options.FILE), options.device, inputs=options.inputs,
        fill_mode=options.fill_mode, repeat=options.repeat or 1, number=options.number or 1,
        end_to_end=options.end_to_end,
    )  # fmt: skip
    if options.print_time:
        print(result.format_times())
    if options.print_top:
        _print_top(result, options.print_top)
    if options.outputs:
        result.save(options.outputs)


def _print_top(result: TVMCResult, count: int) -> None:
    """Print where the greatest numbers of each output are, and these."""
    for each in result.outputs.values():
        flat = each.reshape(-1, each.shape[-1]) if each.ndim else each.reshape(1, 1)
        for row in flat:
            # The reverse of an order from the end keeps equal numbers in theirs.
            order = row.size - 1 - np.argsort(row[::-1], kind="stable")[::-1][:count]
            print([order.tolist(), row[order].tolist()])
