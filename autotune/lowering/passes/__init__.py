"""The passes over the statements of a kernel, one a file, and what they share.

`table` has their order.
"""
