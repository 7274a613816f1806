"""The names that gradient nodes go by, ``MeanBackward0`` and its kin, where PyTorch's differ from what an operation is made of."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ..tensors.tensor import Tensor

Title = str | Callable[[tuple[Any, ...], dict[str, Any]], str]


def _by_dimension(name: str, whole: int, along: int) -> Title:
    """Return a title that tells a reduction of everything from one along dimensions."""

    def title(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        dim = args[1] if len(args) > 1 else kwargs.get("dim")
        return f"{name}Backward{whole if dim is None else along}"

    return title


def _power(operands: tuple[Any, ...]) -> str:
    base, exponent = operands
    if not isinstance(exponent, Tensor):
        return "PowBackward0"
    return "PowBackward1" if isinstance(base, Tensor) else "PowBackward2"


def _weighted(operands: tuple[Any, ...]) -> str:
    return f"LerpBackward{int(isinstance(operands[2], Tensor))}"


def _difference(operands: tuple[Any, ...]) -> str:
    return "SubBackward0" if isinstance(operands[0], Tensor) else "RsubBackward1"


#: element-wise operation -> its node's name, or a function of its operands
ELEMENTWISE: dict[str, str | Callable[[tuple[Any, ...]], str]] = {
    "true_divide_": "DivBackward0", "square": "PowBackward0", "power_": _power, "sub": _difference, "log1p": "Log1PBackward0",
    "select_": "WhereBackward0", "deviation_": "StdBackward0", "clamp_both": "ClampBackward1", "clamp_low": "ClampBackward1",
    "clamp_high": "ClampBackward1", "lerp_tensor_": _weighted, "logsigmoid": "LogSigmoidBackward0",
    "gelu_erf": "GeluBackward0", "gelu_tanh": "GeluBackward0", "deg2rad": "Deg2RadBackward0", "rad2deg": "Rad2DegBackward0",
}  # fmt: skip

#: operation written with others -> its node's name, or a function of its arguments
COMPOSITES: dict[str, Title] = {
    "mean": _by_dimension("Mean", 0, 1), "max": _by_dimension("Max", 1, 0), "min": _by_dimension("Min", 1, 0),
    "prod": _by_dimension("Prod", 0, 1), "median": _by_dimension("Median", 0, 1),
    "nanmedian": _by_dimension("Nanmedian", 0, 1), "squeeze": _by_dimension("Squeeze", 0, 1),
    "var": "VarBackward0", "std": "StdBackward0", "var_mean": "VarMeanBackward0", "std_mean": "StdMeanBackward0",
    "logsumexp": "LogsumexpBackward0", "nansum": "NansumBackward0", "kthvalue": "KthvalueBackward0", "mode": "ModeBackward0",
    "t": "TBackward0", "repeat": "RepeatBackward0", "tile": "RepeatBackward0", "split": "SplitBackward0",
    "chunk": "SplitBackward0", "unbind": "UnbindBackward0", "stack": "StackBackward0", "roll": "RollBackward0",
    "diag_embed": "DiagEmbedBackward0", "trace": "TraceBackward0", "masked_fill": "MaskedFillBackward0",
    "masked_select": "MaskedSelectBackward0", "masked_scatter": "MaskedScatterBackward0", "nan_to_num": "NanToNumBackward0",
    "mv": "MvBackward0", "dot": "DotBackward0", "addmm": "AddmmBackward0", "addmv": "AddmvBackward0",
    "baddbmm": "BaddbmmBackward0", "addbmm": "AddbmmBackward0", "addr": "AddrBackward0", "dist": "DistBackward0",
    "tensor_split": "SliceBackward0", "cdist": "CdistBackward0", "renorm": "RenormBackward0", "take": "TakeBackward0",
}  # fmt: skip


def titled(title: Title) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function written with differentiable operations so that its results' nodes go by one name."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            for each in (result,) if isinstance(result, Tensor) else result:
                if each._base is not None and not any(
                    isinstance(given, Tensor) and each._storage.number == given._storage.number for given in args
                ):
                    # Made by way of a view of something that nobody else sees.
                    each._base = None
                if each._grad_fn is not None and not any(each is given for given in args):
                    each._grad_fn.title = title if isinstance(title, str) else title(args, kwargs)
            return result

        return named

    return decorate
