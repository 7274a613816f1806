"""Batches of products of matrices, of layers and of losses."""

from __future__ import annotations

import math
from typing import Any

from ..dispatch.registry import OPERATIONS
from ..tensors.pytree import tree_leaves
from ..tensors.tensor import Tensor
from .batching import batch_size, batched, is_batched, one_by_one, rewrap, unwrap
from .drawing import random_numbers
from .rules import aligned, rule
from .rules_of_dimensions import _bound

#: how many dimensions the examples of a product have
_DIMENSIONS = {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1), "vdot": (1, 1)}


@rule("matmul", "mm", "bmm", "mv", "dot", "linalg.matmul", "__rmatmul__", "vdot")
def _product(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    if kwargs.get("out") is not None or len(args) + len(kwargs) != 2:
        return one_by_one(func, level, args, kwargs)
    left, right = (*args, *kwargs.values())
    if func.__name__ == "__rmatmul__":
        left, right = right, left
    if func.__name__ == "vdot" and left.is_complex():
        return one_by_one(func, level, args, kwargs)
    wanted = _DIMENSIONS.get(func.__name__)
    if wanted is not None and (left.dim(), right.dim()) != wanted:
        name = func.__name__
        raise RuntimeError(
            f"Shape mismatch: Got incorrect dims for {name}(a, b). a has dim {left.dim()} and b has dim {right.dim()} but expected them to have dim {wanted[0]} and dim {wanted[1]}"
        )
    row, column = left.dim() == 1, right.dim() == 1
    left = left.unsqueeze(0) if row else left
    right = right.unsqueeze(1) if column else right
    if left.shape[-1] != right.shape[-2]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({left.shape[-2]}x{left.shape[-1]} and "
            f"{right.shape[-2]}x{right.shape[-1]})"
        )
    result = aligned(OPERATIONS["matmul"].function, level, (left, right), {})
    result = result.squeeze(-1) if column else result
    return result.squeeze(-1 if column else -2) if row else result


@rule("outer", "ger")
def _outer(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    left, right = (*args, *kwargs.values())[:2]
    return left.unsqueeze(1) * right.unsqueeze(0)


@rule("linear")
def _linear(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    given = _bound(func, args, kwargs) or {}
    value, weight, bias = given["input"], given["weight"], given.get("bias")
    if not (is_batched(weight, level) or is_batched(bias, level)):
        return batched(func(value.batch, weight, bias), level)
    result = value.matmul(weight if weight.dim() == 1 else weight.mT)
    return result if bias is None else result + bias


@rule("addmm", "addmv", "baddbmm")
def _added_product(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    given = _bound(func, args, kwargs) or {}
    start, left, right = list(given.values())[:3]
    return start * given.get("beta", 1) + left.matmul(right) * given.get("alpha", 1)


@rule("einsum")
def _einsum(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    equation = args[0] if args else None
    operands = args[1:] if len(args) != 2 or not isinstance(args[1], tuple | list) else args[1]
    if kwargs or not isinstance(equation, str) or "->" not in equation:
        return one_by_one(func, level, args, kwargs)
    letter = next(each for each in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if each not in equation)
    inputs, output = equation.replace(" ", "").split("->")
    parts = [
        letter + part if is_batched(each, level) else part
        for part, each in zip(inputs.split(","), operands, strict=True)
    ]
    plain = [each.batch if is_batched(each, level) else each for each in operands]
    return batched(func(f"{','.join(parts)}->{letter}{output}", *plain), level)


#: functions of batches of their own, and how many dimensions an input without one has
_LAYERS = {
    "conv1d": 2, "conv2d": 3, "conv3d": 4, "conv_transpose1d": 2, "conv_transpose2d": 3, "conv_transpose3d": 4,
    "max_pool1d": 2, "max_pool2d": 3, "max_pool3d": 4, "avg_pool1d": 2, "avg_pool2d": 3, "avg_pool3d": 4,
    "adaptive_avg_pool1d": 2, "adaptive_avg_pool2d": 3, "adaptive_avg_pool3d": 4, "adaptive_max_pool1d": 2,
    "adaptive_max_pool2d": 3, "group_norm": 0, "interpolate": 0,
}  # fmt: skip


@rule(*_LAYERS)
def _layer(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    """The two batches become one."""
    value: Any = args[0] if args else None
    others = tree_leaves((args[1:], kwargs))
    if not is_batched(value, level) or any(is_batched(each, level) for each in others):
        return one_by_one(func, level, args, kwargs)
    if value.dim() == _LAYERS[func.__name__]:
        return rewrap(func(value.batch, *args[1:], **kwargs), level)
    result = func(value.batch.flatten(0, 1), *args[1:], **kwargs)
    if not isinstance(result, Tensor):
        return one_by_one(func, level, args, kwargs)
    return batched(result.unflatten(0, (batch_size(level), value.shape[0])), level)


@rule("layer_norm", "rms_norm")
def _norm(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    given = _bound(func, args, kwargs) or {}
    value, weight, bias = given["input"], given.pop("weight", None), given.pop("bias", None)
    rest = {name: each for name, each in given.items() if name != "input"}
    if not is_batched(value, level):
        result = func(value, **rest)
    else:
        result = batched(func(value.batch, **rest), level)
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


@rule("embedding")
def _embedding(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    given = _bound(func, args, kwargs) or {}
    if is_batched(given["weight"], level):
        return one_by_one(func, level, args, kwargs)
    return batched(func(given.pop("input").batch, **given), level)


@rule("scaled_dot_product_attention")
def _attention(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    given = _bound(func, args, kwargs) or {}
    if given.get("dropout_p"):
        return random_numbers(func, level, args, kwargs)
    return aligned(func, level, args, kwargs)


@rule(
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
    "poisson_nll_loss", "soft_margin_loss",
)  # fmt: skip
def _loss(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    given = _bound(func, args, kwargs) or {}
    reduction = given.pop("reduction", "mean")
    if (
        reduction not in ("none", "mean", "sum")
        or given.get("size_average") is not None
        or given.get("reduce") is not None
    ):
        return one_by_one(func, level, args, kwargs)
    value, target = given.pop("input"), given.pop("target")
    if value.dim() != target.dim() or any(is_batched(each, level) for each in given.values()):
        return one_by_one(func, level, (value, target), {**given, "reduction": reduction})
    losses = batched(func(unwrap(value, level), unwrap(target, level), **given, reduction="none"), level)
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


@rule("cross_entropy", "nll_loss")
def _classified(func: Any, level: int, args: Any, kwargs: Any) -> Any:
    given = _bound(func, args, kwargs) or {}
    value, target, reduction = given.pop("input"), given.pop("target"), given.pop("reduction", "mean")
    simple = set(given) <= {"ignore_index"} and target.dtype.category == 1 and value.dim() in (1, 2)
    if not simple or not is_batched(value, level) or math.prod(value.shape) == 0:
        return one_by_one(func, level, args, kwargs)
    count = batch_size(level)
    target = target.batch if is_batched(target, level) else target.unsqueeze(0).expand(count, *target.shape)
    losses = func(value.batch.reshape(-1, value.shape[-1]), target.reshape(-1), reduction="none", **given)
    losses = losses.reshape(count, -1) if value.dim() == 2 else losses
    if reduction == "none":
        return batched(losses, level)
    if value.dim() == 2:
        used = (target.reshape(count, -1) != given.get("ignore_index", -100)).sum(1)
        losses = losses.sum(1) / used if reduction == "mean" else losses.sum(1)
    return batched(losses, level)
