"""Where PyTorch keeps ``torch.func``'s older names."""

from . import deprecated as deprecated
