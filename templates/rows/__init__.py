"""Row-wise kernels: softmax, norms, reductions, prefix sums."""
