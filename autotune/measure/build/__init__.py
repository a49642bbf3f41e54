"""From a configuration to an artifact: kernels, and the processes that compile them."""
