"""Arrays, modules and timers on CUDA devices and the CPU."""
