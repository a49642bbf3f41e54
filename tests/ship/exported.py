"""Templates with all that a kernel may have, and logs of them without tuning."""

import autotune.templates

import autotune
from autotune.record import write_log
from autotune.task import Task
from tests.record.records import good

STEPS = """
static float helper(float v) { return SCALE * v; }
float bias[N];
void first(const float *x, float *t) {
  for (int i = 0; i < N; ++i) t[i] = helper(x[i]) + bias[i];
}
void second(float a, const float *t, float *y, int *count) {
  for (int i = 0; i < N; ++i) { y[i] += a * t[i]; count[0] += 1; }
}
"""
CUDA_STEPS = """
__constant__ float bias[N];
template <int S> __global__ void first(const float *x, float *t) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) t[i] = S * x[i] + bias[i];
}
extern "C" __global__ void second(float a, const float *t, float *y, int *count) {
  extern __shared__ float room[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) { room[threadIdx.x] = t[i]; y[i] += a * room[threadIdx.x]; atomicAdd(count, 1); }
}
"""


def reference(a, x, bias, y, count, scale=3):
    return y + a * (scale * x + bias), count + x.size


@autotune.template("tests.ship.steps")
def steps(n, language="c"):
    """Two kernels, a workspace between them, a number, a constant, an array that is changed."""
    cfg = autotune.get_config()
    cfg.define_knob("scale", [3])
    cuda = language == "cuda"
    first = "first<SCALE>" if cuda else "first"
    launch = {"grid": (n + 63) // 64, "block": 64} if cuda else {}
    shared = {"shared_bytes": 64 * 4} if cuda else {}
    return autotune.SourceKernel(
        "steps",
        CUDA_STEPS if cuda else STEPS,
        [
            autotune.arg("a", (), "float32"),
            autotune.arg("x", (n,)),
            autotune.constant("bias", (n,)),
            autotune.arg("y", (n,), role="inout"),
            autotune.arg("count", (1,), "int32", role="inout"),
        ],
        defines={"N": n, "SCALE": cfg["scale"].val},
        workspace=[autotune.workspace("t", (n,), "float32")],
        calls=[
            autotune.call(first.replace("SCALE", str(cfg["scale"].val)), ["x", "t"], **launch),
            autotune.call("second", ["a", "t", "y", "count"], **launch, **shared),
        ],
        reference=reference,
    )


@autotune.template("tests.ship.times")
def times(n, factor):
    """Workloads that differ in what no shape tells."""
    cfg = autotune.get_config()
    cfg.define_knob("step", [1])
    source = (
        "void times(const float *x, float *y) { for (int i = 0; i < N; ++i) y[i] = F * x[i]; }"
    )
    return autotune.SourceKernel(
        "times",
        source,
        [autotune.arg("x", (n,)), autotune.arg("y", (n,), role="out")],
        defines={"N": n, "F": factor},
        reference=lambda x: factor * x,
    )


@autotune.template("tests.ship.copied")
def copied(n, dtype):
    """Workloads that take arrays of other dtypes under the same names."""
    cfg = autotune.get_config()
    cfg.define_knob("step", [1])
    halves = {"float16": "unsigned short", "bfloat16": "unsigned short"}
    kind = {"float32": "float", "float64": "double", **halves}[dtype]
    return autotune.SourceKernel(
        "copied",
        f"void copied(const {kind} *x, {kind} *y) {{ for (int i = 0; i < N; ++i) y[i] = x[i]; }}",
        [autotune.arg("x", (n,), dtype), autotune.arg("y", (n,), dtype, role="out")],
        defines={"N": n},
        reference=lambda x: x,
    )


@autotune.template("tests.ship.chosen")
def chosen(n):
    """Numbers by value that C and C++ have other words for."""
    cfg = autotune.get_config()
    cfg.define_knob("step", [1])
    return autotune.SourceKernel(
        "chosen",
        "#include <stdbool.h>\n"
        "void chosen(bool second, unsigned char by, const float *x, float *y) {\n"
        "  for (int i = 0; i < N; ++i) y[i] = second ? by * x[i] : x[i];\n}",
        [
            autotune.arg("second", (), "bool"),
            autotune.arg("by", (), "uint8"),
            autotune.arg("x", (n,)),
            autotune.arg("y", (n,), role="out"),
        ],
        defines={"N": n},
        reference=lambda second, by, x: by * x if second else x,
    )


def write(log, *wanted, target="llvm"):
    """Writes a log of the default configuration of some workloads."""
    pairs = []
    for name, args in wanted:
        task = autotune.create(name, args=args, target=target)
        config = task.default() or task.config_space.get(0)
        inp = autotune.MeasureInput(task.target, Task(name, args, task.target), config)
        pairs.append((inp, good(1e-6)))
    write_log(log, pairs)
    return log
