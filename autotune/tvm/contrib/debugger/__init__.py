"""TVM's `contrib.debugger`: networks run kernel by kernel."""
