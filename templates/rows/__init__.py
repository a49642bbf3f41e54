"""Maps, reductions and cumulative sums of rows: softmax, norms, sums."""
