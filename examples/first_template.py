"""A CUDA kernel with two knobs, tuned on the CPU emulator.

    python first_template.py

With a GPU, tune it there: python first_template.py cuda
"""

import sys

import autotune

SOURCE = """
extern "C" __global__ void scale(const float* x, float* y) {
  int first = (blockIdx.x * THREADS + threadIdx.x) * PER_THREAD;
  for (int i = 0; i < PER_THREAD; ++i)
    if (first + i < N) y[first + i] = 2 * x[first + i];
}
"""


@autotune.template("example.scale")
def scale(n: int) -> autotune.SourceKernel:
    """Doubles n numbers: the knobs are what a tuner may choose."""
    cfg = autotune.get_config()
    cfg.define_knob("threads", [32, 64, 128])
    cfg.define_knob("per_thread", [1, 2, 4])
    cfg.add_flop(n)
    threads, per_thread = cfg["threads"].val, cfg["per_thread"].val
    return autotune.SourceKernel(
        "scale",
        source=SOURCE,
        defines={"THREADS": threads, "PER_THREAD": per_thread, "N": n},
        grid=-(-n // (threads * per_thread)),
        block=threads,
        args=[autotune.arg("x", (n,)), autotune.arg("y", (n,), role="out")],
        reference=lambda x: 2 * x,  # every trial's answer is compared with this
    )


def main(target: str = "cuda -emulate") -> None:
    """Tunes it, and prints the best choice."""
    task = autotune.create("example.scale", args=(1000,), target=target)
    tuner = autotune.tuner.GridSearchTuner(task)
    result = tuner.tune(
        len(task.config_space),
        autotune.measure_option("local", "local"),
        callbacks=[autotune.callback.log_to_file("scale.log")],
    )
    print("best:", result.best_config)


if __name__ == "__main__":
    main(*sys.argv[1:])
