"""Several sizes of one kernel, tuned on processes that are started once; one file of the best.

python many_tasks.py
"""

import autotune

SOURCE = """
void sums(const float* x, float* y) {
  for (int i = 0; i < ROWS; ++i) {
    float part[LANES] = {0};
    for (int j = 0; j < COLS; j += LANES)
      for (int k = 0; k < LANES; ++k) part[k] += x[i * COLS + j + k];
    y[i] = 0;
    for (int k = 0; k < LANES; ++k) y[i] += part[k];
  }
}
"""


@autotune.template("example.row_sums")
def row_sums(rows: int, cols: int) -> autotune.SourceKernel:
    """Sums each row in as many parts as the knob says; they must divide a row."""
    cfg = autotune.get_config()
    cfg.define_knob("lanes", [1, 2, 4, 8, 16, 32])
    cfg.multi_filter(lambda c: cols % c["lanes"].val == 0)
    cfg.add_flop(rows * cols)
    return autotune.SourceKernel(
        "sums",
        source=SOURCE,
        defines={"ROWS": rows, "COLS": cols, "LANES": cfg["lanes"].val},
        args=[autotune.arg("x", (rows, cols)), autotune.arg("y", (rows,), role="out")],
        reference=lambda x: x.sum(axis=1),
    )


def main() -> None:
    """Tunes three sizes in one session, and keeps the best of each."""
    sizes = [(64, 1024), (256, 96), (1000, 12)]
    with autotune.Session() as session:
        for size in sizes:
            task = autotune.create("example.row_sums", args=size, target="llvm")
            result = autotune.tuner.AutoTuner(task, seed=0).tune(
                4, session, callbacks=[autotune.callback.log_to_file("all.log")]
            )
            print(size, result.best_config)
    autotune.record.pick_best("all.log", "best.log")
    print("best.log has", len(list(autotune.record.load_from_file("best.log"))), "records")


if __name__ == "__main__":
    main()
