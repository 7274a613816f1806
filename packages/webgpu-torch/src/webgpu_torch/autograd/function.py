"""Custom differentiable functions, as ``torch.autograd.function``."""

from webgpu_torch_core.autograd.function import Function as Function
from webgpu_torch_core.autograd.function import FunctionContext as FunctionCtx
from webgpu_torch_core.autograd.function import FunctionNode as BackwardCFunction
from webgpu_torch_core.autograd.once import once_differentiable as once_differentiable


class InplaceFunction(Function):
    """An older base of functions that change an argument in place.

    Args:
        inplace: whether the function does.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]
