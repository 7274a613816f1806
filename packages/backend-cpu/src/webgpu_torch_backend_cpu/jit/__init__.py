"""Kernels as machine code, where llvmlite (Numba's compiler) is installed: LLVM's language printed from the same forms.

Expressions are typed as LLVM's values are, so that a kernel is printed and compiled in some tens of milliseconds, most of them
outside of Python's lock. Sizes, strides and offsets are arguments: one compiled text serves all of them.
"""
