"""What modules of one, two and three spatial dimensions share: the rank is a number, the code is written once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from webgpu_torch_nn import functional as F
from webgpu_torch_nn.modules.module import Module
from webgpu_torch_nn.modules.utils import _ntuple


class _Ranked(Module):
    """A module over a fixed number of spatial dimensions."""

    # Underscored, so that a user's submodule of the name is found.
    _spatial: ClassVar[int]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # As the class's name says; what is derived from it may have any name.
        if not hasattr(cls, "_spatial") and cls.__name__.endswith(("1d", "2d", "3d")):
            cls._spatial = int(cls.__name__[-2])

    def _function(self, name: str) -> Callable[..., Any]:
        """Return the function of this rank, such as ``F.conv2d`` for "conv"; looked up at the call, as in PyTorch."""
        return getattr(F, f"{name}{self._spatial}d")

    def _sizes(self, value: Any) -> Any:
        """Return one value for each spatial dimension; None and names such as "same" stay."""
        return value if value is None or isinstance(value, str) else _ntuple(self._spatial)(value)
