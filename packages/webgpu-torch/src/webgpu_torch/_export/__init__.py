"""What classes of tensors say to PyTorch's export, as ``torch._export``."""

from . import wrappers as wrappers
