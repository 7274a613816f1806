"""The type of modules that PyTorch's compiler wraps."""


class OptimizedModule:
    """A module compiled by tracing, of which there are none."""
