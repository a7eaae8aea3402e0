"""Shape, dtype, device, bytes and lifetime of every value of a model, ahead of time and at no tensor memory.

Nothing here runs a program or plans at run time: the static side of the package is enough for all of it. torch is
loaded by the modules that need it, when they are first used.
"""
