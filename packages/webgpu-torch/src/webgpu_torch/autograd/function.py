"""Custom differentiable functions, as ``torch.autograd.function``."""

from webgpu_torch_core.autograd.function import Function as Function
from webgpu_torch_core.autograd.function import FunctionContext as FunctionCtx
from webgpu_torch_core.autograd.function import FunctionNode as BackwardCFunction
from webgpu_torch_core.autograd.function import once_differentiable as once_differentiable

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "once_differentiable"]
