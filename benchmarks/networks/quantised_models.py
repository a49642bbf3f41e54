"""Quantised models: results and times, on a CPU beside ONNX Runtime, on a GPU beside float16.

    OMP_NUM_THREADS=1 taskset -c 1 python -m benchmarks.networks.quantised_models model.onnx \\
        --shape x=1,3,224,224
    python -m benchmarks.networks.quantised_models resnet-50 --target cuda --batch 32

On a CPU ONNX Runtime's static quantiser makes an int8 model of the float one, with ranges of three
random inputs; both run both models on another random input, on as many threads as OMP_NUM_THREADS
says. Needs onnx and onnxruntime.

On a GPU the model is one of `image_models` with drawn parameters, and `quantiser` quantises it.
Results are compared with those of our kernels for CPUs, and times of CUDA graphs are taken in
turns: of bytes, of our float16 and of PyTorch's, channels_last. Needs PyTorch.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from autotune.graph import Array
from autotune.importers import from_onnx
from autotune.network import compile_network
from autotune.target import Target
from benchmarks.networks.image_models import MODELS
from benchmarks.networks.quantised_cuda import compare

Feed = Mapping[str, Array]


def feeds(shapes: Mapping[str, Sequence[int]], count: int, seed: int) -> list[Feed]:
    """Return random inputs."""
    rng = np.random.default_rng(seed)
    return [
        {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
        for _ in range(count)
    ]


def quantise(model: Path, out: Path, given: Sequence[Feed], form: str, dtype: str) -> None:
    """Write the model in 8-bit integers: in the QDQ form, or as operators on integers.

    It is simplified first, without which ONNX Runtime takes four times as long for it.
    """
    tools: Any = importlib.import_module("onnxruntime.quantization")
    before: Any = importlib.import_module("onnxruntime.quantization.shape_inference")
    before.quant_pre_process(str(model), str(out), skip_symbolic_shape=True)

    class Reader(tools.CalibrationDataReader):  # type: ignore[misc]
        left = iter(given)

        def get_next(self) -> Feed | None:
            """Return the next input."""
            return next(self.left, None)

    kinds = {"int8": tools.QuantType.QInt8, "uint8": tools.QuantType.QUInt8}
    forms = {"qdq": tools.QuantFormat.QDQ, "operators": tools.QuantFormat.QOperator}
    tools.quantize_static(
        str(out), str(out), Reader(), quant_format=forms[form],
        activation_type=kinds[dtype], weight_type=tools.QuantType.QInt8,
    )  # fmt: skip


def median_s(run: Callable[[], object], rounds: int) -> float:
    """Return the median time of a run."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def compared(
    model: Path, shapes: Mapping[str, Sequence[int]], rounds: int
) -> dict[str, float | list[float]]:
    """Return the times of both, and by how much results differ in relation to the greatest."""
    runtime: Any = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", "0"))
    session = runtime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    (given,) = feeds(shapes, 1, seed=7)
    want = session.run(None, given)
    network = from_onnx(model, {name: tuple(shape) for name, shape in shapes.items()})
    instance = compile_network(network.graph, "llvm").instance()
    for number, each in enumerate(network.graph.inputs):
        instance.set_input(number, given[each.name])
    instance.run()
    got = [each.numpy() for each in instance.outputs]
    differences = [
        float(np.abs(a.astype("float64") - b).max() / max(float(np.abs(b).max()), 1e-30))
        for a, b in zip(got, want, strict=True)
    ]
    other = median_s(lambda: session.run(None, given), rounds)
    own = median_s(instance.run, rounds)
    return {"onnxruntime_ms": 1e3 * other, "ms": 1e3 * own, "differences": differences}


def main(argv: Sequence[str] | None = None) -> None:
    """Compare, and print one line of JSON for each form of the model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a file, or with --target cuda a name")
    parser.add_argument("--shape", action="append", default=[], help="NAME=EXTENT,...")
    parser.add_argument("--target", default="llvm")
    parser.add_argument("--batch", type=int, default=1, help="images, on a GPU")
    parser.add_argument("--report", action="store_true", help="times of kernels, on a GPU")
    parser.add_argument("--forms", nargs="+", default=["float", "qdq"])
    parser.add_argument("--dtype", default="uint8", choices=("int8", "uint8"))
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args(argv)
    target = Target(options.target)
    if target.backend.on_gpu:
        if str(options.model) not in MODELS:
            parser.error(f"on a GPU the model must be one of {', '.join(MODELS)}")
        compare(str(options.model), target, options.batch, options.dtype, options.rounds,
                options.report)  # fmt: skip
        return
    if not options.shape:
        parser.error("expected --shape for each input of the model, such as x=1,3,224,224")
    named = [each.partition("=") for each in options.shape]
    shapes = {name: [int(n) for n in text.split(",")] for name, _, text in named}
    for form in options.forms:
        with tempfile.TemporaryDirectory() as folder:
            model = options.model
            if form != "float":
                model = Path(folder, "quantised.onnx")
                quantise(options.model, model, feeds(shapes, 3, seed=0), form, options.dtype)
            print(
                json.dumps({"form": form, **compared(model, shapes, options.rounds)}), flush=True
            )


if __name__ == "__main__":
    main()
