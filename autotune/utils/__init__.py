"""Small helpers that know nothing of kernels: arithmetic, SI prefixes, child processes."""
