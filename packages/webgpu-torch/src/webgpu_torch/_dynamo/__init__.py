"""``torch._dynamo``: no tracing compiler, so its marks leave functions and tensors as they are."""

from __future__ import annotations

from typing import Any

from ..compiler import allow_in_graph as allow_in_graph
from ..compiler import assume_constant_result as assume_constant_result
from ..compiler import disable as disable
from ..compiler import is_compiling as is_compiling
from ..compiler import reset as reset
from . import _trace_wrapped_higher_order_op as _trace_wrapped_higher_order_op
from . import config as config
from . import eval_frame as eval_frame
from .eval_frame import OptimizedModule as OptimizedModule


def graph_break(msg: str = "") -> None:
    """Do nothing: there is no graph to break."""


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Do nothing: captured steps find tensors by their storage."""


def mark_dynamic(t: Any, index: Any, **_: Any) -> None:
    """Do nothing: shapes are read at every call."""


mark_static = maybe_mark_dynamic = mark_dynamic
