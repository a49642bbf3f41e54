"""A folder for `sys.path`, in which ``tvm`` is found; see `autotune.tvm.serve`."""
