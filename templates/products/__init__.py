"""Products of matrices: for CUDA cores, each kind of tensor core instructions, and CPUs."""
