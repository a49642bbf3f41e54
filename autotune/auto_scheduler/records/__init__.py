"""Records of what was measured, in TVM's format: their lines, their files, and what is in them."""
