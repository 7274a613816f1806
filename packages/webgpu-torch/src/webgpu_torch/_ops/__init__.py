"""``torch._ops``: PyTorch's operations as objects, and what classes of tensors and modes that answer them are given."""

from __future__ import annotations

from . import dispatching as _dispatching
from . import wrappers as _wrappers
from .overloads import OpOverload as OpOverload
from .overloads import OpOverloadPacket as OpOverloadPacket

_dispatching.install()
del _wrappers

__all__ = ["OpOverload", "OpOverloadPacket"]
