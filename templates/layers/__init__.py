"""The layers of networks that templates compute, and with which arguments.

Importing it enters them all. The modules are named after what they are matched to; `any_target`
has those that a CPU has too.
"""

from . import any_target as any_target
