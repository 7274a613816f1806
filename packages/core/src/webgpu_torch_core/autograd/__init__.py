"""Reverse-mode differentiation: grad modes, the engine, custom functions."""

from .engine import backward, grad
from .function import Function, FunctionContext
from .grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .node import AccumulateGrad, Node

__all__ = [
    "AccumulateGrad",
    "Function",
    "FunctionContext",
    "Node",
    "backward",
    "enable_grad",
    "grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
]
