"""Marks of where a network goes into integers and out of them."""

from __future__ import annotations

from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Module


class QuantStub(Module):
    """Stands where numbers are to be quantised; it lets them pass until the network is converted.

    Args:
        qconfig: a configuration of its own.
    """

    def __init__(self, qconfig: Answer = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of any shape as it is."""
        return x


class DeQuantStub(Module):
    """Stands where integers are to become numbers; it lets tensors pass until the network is converted.

    Args:
        qconfig: a configuration of its own.
    """

    def __init__(self, qconfig: Answer = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of any shape as it is."""
        return x


class QuantWrapper(Module):
    """A module between a :class:`QuantStub` and a :class:`DeQuantStub`.

    Args:
        module: the module.
    """

    quant: QuantStub
    dequant: DeQuantStub
    module: Module

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X: Tensor) -> Answer:
        """Return what the module makes of a tensor of any shape, as numbers."""
        return self.dequant(self.module(self.quant(X)))
