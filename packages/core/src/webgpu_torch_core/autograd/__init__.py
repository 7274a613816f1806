"""Reverse-mode differentiation: grad modes, the engine, custom functions."""

from ..record.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from ..record.node import AccumulateGrad, Node
from .anomaly_mode import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_anomaly_enabled,
    set_detect_anomaly,
)
from .engine import backward, grad
from .function import Function, FunctionContext

__all__ = [
    "AccumulateGrad", "Function", "FunctionContext", "Node", "backward", "detect_anomaly", "enable_grad", "grad",
    "inference_mode", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "is_grad_enabled",
    "is_inference_mode_enabled", "no_grad", "set_anomaly_enabled", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip
