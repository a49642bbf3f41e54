"""The command line: `autotune`.

`main` lists the subcommands, each a function in the module of its name, which is imported when it
is called. They print; what they compute is in the packages below.
"""
