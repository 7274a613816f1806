"""Modules that quantisation takes together: sequences of what is computed at once."""

from __future__ import annotations

from typing import ClassVar

import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Module


class _FusedModule(nn.Sequential):
    """A sequence of modules of certain kinds.

    Raises:
        AssertionError: others are given.
    """

    _kinds: ClassVar[tuple[Answer, ...]] = ()

    def __init__(self, *modules: Module) -> None:
        for each, kinds in zip(modules, self._kinds, strict=True):
            if not isinstance(each, kinds):
                raise AssertionError(f"Incorrect types for input modules: {[type(one) for one in modules]}")
        super().__init__(*modules)


class ConvReLU1d(_FusedModule):
    """A :class:`torch.nn.Conv1d` and a ReLU."""

    _kinds = (nn.Conv1d, nn.ReLU)


class ConvReLU2d(_FusedModule):
    """A :class:`torch.nn.Conv2d` and a ReLU."""

    _kinds = (nn.Conv2d, nn.ReLU)


class ConvReLU3d(_FusedModule):
    """A :class:`torch.nn.Conv3d` and a ReLU."""

    _kinds = (nn.Conv3d, nn.ReLU)


class LinearReLU(_FusedModule):
    """A :class:`torch.nn.Linear` and a ReLU."""

    _kinds = (nn.Linear, nn.ReLU)


class ConvBn1d(_FusedModule):
    """A :class:`torch.nn.Conv1d` and a batch normalisation."""

    _kinds = (nn.Conv1d, nn.BatchNorm1d)


class ConvBn2d(_FusedModule):
    """A :class:`torch.nn.Conv2d` and a batch normalisation."""

    _kinds = (nn.Conv2d, nn.BatchNorm2d)


class ConvBn3d(_FusedModule):
    """A :class:`torch.nn.Conv3d` and a batch normalisation."""

    _kinds = (nn.Conv3d, nn.BatchNorm3d)


class ConvBnReLU1d(_FusedModule):
    """A :class:`torch.nn.Conv1d`, a batch normalisation and a ReLU."""

    _kinds = (nn.Conv1d, nn.BatchNorm1d, nn.ReLU)


class ConvBnReLU2d(_FusedModule):
    """A :class:`torch.nn.Conv2d`, a batch normalisation and a ReLU."""

    _kinds = (nn.Conv2d, nn.BatchNorm2d, nn.ReLU)


class ConvBnReLU3d(_FusedModule):
    """A :class:`torch.nn.Conv3d`, a batch normalisation and a ReLU."""

    _kinds = (nn.Conv3d, nn.BatchNorm3d, nn.ReLU)


class BNReLU2d(_FusedModule):
    """A :class:`torch.nn.BatchNorm2d` and a ReLU."""

    _kinds = (nn.BatchNorm2d, nn.ReLU)


class BNReLU3d(_FusedModule):
    """A :class:`torch.nn.BatchNorm3d` and a ReLU."""

    _kinds = (nn.BatchNorm3d, nn.ReLU)


class LinearBn1d(_FusedModule):
    """A :class:`torch.nn.Linear` and a batch normalisation."""

    _kinds = (nn.Linear, nn.BatchNorm1d)


class LinearLeakyReLU(_FusedModule):
    """A :class:`torch.nn.Linear` and a leaky ReLU."""

    _kinds = (nn.Linear, nn.LeakyReLU)


class LinearTanh(_FusedModule):
    """A :class:`torch.nn.Linear` and a hyperbolic tangent."""

    _kinds = (nn.Linear, nn.Tanh)


class ConvAdd2d(_FusedModule):
    """A :class:`torch.nn.Conv2d` to whose result another tensor is added."""

    _kinds = (nn.Conv2d, object)

    def __init__(self, conv: Module, add: Answer) -> None:
        Module.__init__(self)
        self.add_module("0", conv)
        self.add = add

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        """Return the convolution of ``x1`` ``[n, in, height, width]`` plus ``x2`` ``[n, out, height, width]``."""
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(ConvAdd2d):
    """A :class:`torch.nn.Conv2d` to whose result another tensor is added, and a ReLU."""

    def __init__(self, conv: Module, add: Answer, relu: Module) -> None:
        super().__init__(conv, add)
        self.relu = relu

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:  # type: ignore[override]
        """Return the ReLU of the convolution of ``x1`` ``[n, in, height, width]`` plus ``x2`` ``[n, out, height, width]``."""
        return self.relu(super().forward(x1, x2))
