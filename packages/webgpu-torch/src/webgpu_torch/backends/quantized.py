"""``torch.backends.quantized``: the engines that PyTorch's programs choose among; there is one arithmetic here, that of ``fbgemm``."""

from __future__ import annotations

import sys
from types import ModuleType

#: the names that programs may choose
supported_engines = ["qnnpack", "onednn", "x86", "fbgemm"]
_chosen = ["x86"]


class _Engines(ModuleType):
    """The module, whose ``engine`` is one of those that are supported."""

    @property
    def engine(self) -> str:
        """The engine that was chosen; it changes no result."""
        return _chosen[0]

    @engine.setter
    def engine(self, value: str) -> None:
        if value not in (*supported_engines, "none"):
            raise RuntimeError(f"quantized engine {value} is not supported")
        _chosen[0] = value


sys.modules[__name__].__class__ = _Engines
