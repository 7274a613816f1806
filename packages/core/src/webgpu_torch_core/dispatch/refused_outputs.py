"""What PyTorch says of an ``out`` that a function does not take, which names the function."""

from __future__ import annotations

from collections.abc import Callable

from .argument_types import combination_refused, name_of
from .output_errors import RefusedGradient, RefusedOutput

#: functions whose results others write, by PyTorch's account
_WRITERS = {
    "column_stack": "cat", "diag": "aten::diagonal_copy", "diff": "sub", "float_power": "pow", "hstack": "cat", "outer": "mul",
    "normalize": "div", "square": "pow", "true_divide": "div", "lu_solve": "linalg_lu_solve", "cross": "linalg_cross",
    "logsigmoid": "log_sigmoid_forward",
    **{
        name: f"aten::{name}"
        for name in (
            "alias_copy", "as_strided_copy", "conj_physical", "diagonal_copy", "expand_copy", "floor_divide", "heaviside",
            "linspace", "logspace", "permute_copy", "softmax", "view_copy",
        )
    },
}  # fmt: skip

#: functions of several declarations in PyTorch, of which none takes an ``out`` that is no tensor
_SEVERAL = frozenset((
    "addmm", "baddbmm", "bernoulli", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "bmm", "clamp", "clamp_max", "clamp_min", "copysign", "div", "eq", "float_power", "fmod", "ge", "gt", "isin", "le", "lerp",
    "linspace", "logspace", "lt", "max", "min", "mm", "nanquantile", "ne", "normal", "pow", "quantile", "remainder", "round",
    "scatter", "view_copy", "sort", "arange", "linalg_norm", "median", "nanmedian",
))  # fmt: skip


def refusal_of_out(
    function: Callable[..., object],
    path: str,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    error: RefusedOutput,
) -> Exception:
    """Return an error that says of ``out`` what another says, and which function refuses it."""
    name = name_of(path)
    if isinstance(error, RefusedGradient):
        both = name in ("max", "min") and len(args) > 1 and not isinstance(args[1], int)
        return RuntimeError(f"{f'{name}imum' if both else _WRITERS.get(function.__name__, name)}(): {error}")
    if name in _SEVERAL:
        return combination_refused(function, path, args, kwargs)
    told = str(error).rpartition("(): ")[2]
    return TypeError(f"{name}(): {told}")
