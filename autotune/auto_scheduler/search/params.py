"""What is set of a search."""

from __future__ import annotations

# A number, or a tiling structure.
Param = int | float | str
# Those of `SketchPolicy`.
DEFAULT_PARAMS: dict[str, Param] = {
    "eps_greedy": 0.05,
    "retry_search_one_round_on_empty": 1,
    "sample_init_min_population": 50,
    "sample_init_use_measured_ratio": 0.2,
    "evolutionary_search_population": 2048,
    "evolutionary_search_num_iters": 4,
    "evolutionary_search_mutation_prob": 0.85,
    "cpu_multi_level_tiling_structure": "SSRSRS",
    "gpu_multi_level_tiling_structure": "SSSRRSRS",
    "max_innermost_split_factor": 64,
    "max_vectorize_size": 16,
    "disable_change_compute_location": 0,
}
