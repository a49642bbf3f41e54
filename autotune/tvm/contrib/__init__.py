"""TVM's `contrib`: helpers around it."""
