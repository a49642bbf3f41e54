"""From a kernel's text to machine code, and what the machine code says of itself."""
