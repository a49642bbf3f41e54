"""A matrix product as a tensor expression; its schedule is tuned, its C or CUDA code is written.

python te_template.py
"""

import autotune
from autotune import te


@autotune.template("example.matmul")
def matmul(n: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """Computes C = A @ B; the tile sizes are open."""
    a = te.placeholder((n, n), name="A")
    b = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")

    s = te.create_schedule(c.op)
    y, x = s[c].op.axis
    (k,) = s[c].op.reduce_axis
    cfg = autotune.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    y_outer, y_inner = cfg["tile_y"].apply(s, c, y)
    x_outer, x_inner = cfg["tile_x"].apply(s, c, x)
    s[c].reorder(y_outer, x_outer, k, y_inner, x_inner)
    s[c].vectorize(x_inner)
    return s, [a, b, c]


def main() -> None:
    """Tunes it for this CPU, and prints the loops of the best."""
    task = autotune.create("example.matmul", args=(64,), target="llvm")
    tuner = autotune.tuner.XGBTuner(task, seed=0)
    result = tuner.tune(12, autotune.measure_option("local", "local"))
    schedule, arguments = task.instantiate(autotune.ConfigEntity.of(result.best_config))
    print(autotune.lower(schedule, arguments))


if __name__ == "__main__":
    main()
