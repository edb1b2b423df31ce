"""The simulated machine as a shared library ``libnvidia-ml.so.1``, for programs that know nothing of it.

The library is a little C around the same Python functions that answer nvidia-ml-py in-process: each of its functions
hands its arguments, as they are, to ``entry.call``. It brings a Python interpreter along (libpython, loaded and started
by the first nvmlInit), or uses the one that the program is. It is built on the user's machine from ``start.c`` and
``functions.yaml``: ``build.library()``.
"""
