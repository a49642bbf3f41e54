"""TVM's `contrib.nvcc`, which scripts import for a callback that compiles; see `register_func`."""

__all__: list[str] = []
