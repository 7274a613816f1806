"""``torch._check`` and its family: conditions that libraries state, as errors of their kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from webgpu_torch_core import Tensor, dtype, int64, zeros
from webgpu_torch_core.dispatch.overrides import wrap_torch_function
from webgpu_torch_core.ir.dtypes import bool_
from webgpu_torch_core.ir.layouts import is_dense

if TYPE_CHECKING:
    from webgpu_torch_core.tensors.type_aliases import DeviceLike

Message = Callable[[], str] | None
PLAIN = (
    "Expected cond to be True, but got False. (Could this error message be improved? If so, please report an "
    "enhancement request to PyTorch.)"
)


def _check_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raise an error of a type, with what ``message`` returns, unless a condition holds.

    Raises:
        TypeError: the condition is not a bool.
    """
    if isinstance(cond, Tensor):
        raise TypeError(
            "cond must be a bool, but got a Tensor. For tensor conditions, use torch._check_tensor_all() to assert that "
            "all elements are true."
        )
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        raise error_type(PLAIN if message is None else message())


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raise an error of a type unless every element of a tensor of bools is true; this waits for them.

    Raises:
        TypeError: the condition is not a tensor.
    """
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype != bool_:
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check(cond: Any, message: Message = None) -> None:
    """Raise RuntimeError unless a condition holds."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Message = None) -> None:
    """Raise IndexError unless a condition holds."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Message = None) -> None:
    """Raise ValueError unless a condition holds."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Message = None) -> None:
    """Raise TypeError unless a condition holds."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Message = None) -> None:
    """Raise NotImplementedError unless a condition holds."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Message = None, *, max: int | None = None) -> None:
    """Raise RuntimeError unless a number can be a size (of at most ``max``)."""
    _check(i >= 0 and (max is None or i <= max), message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """Raise RuntimeError unless every element of a tensor of bools is true."""
    _check_tensor_all_with(RuntimeError, cond, message)


@wrap_torch_function(lambda condition, message: (condition,))
def _assert(condition: object, message: str) -> None:
    """Raise an error with a message unless a condition, which may be a tensor of one element, holds.

    Raises:
        AssertionError: it does not.
    """
    assert condition, message


def _assert_async(input: Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raise an error unless a tensor's one element is true; this waits for it.

    Raises:
        RuntimeError: it is zero.
    """
    if not bool(input):
        raise RuntimeError(assert_msg)


def _shape_as_tensor(self: Tensor) -> Tensor:
    """Return the shape as a tensor of int64."""
    from webgpu_torch_core import tensor

    return tensor(tuple(self.shape), dtype=int64)


def _neg_view(self: Tensor) -> Tensor:
    """Return a tensor's negative, of the same shape, which is computed at once and shares no memory."""
    return self.neg()


Tensor._neg_view = _neg_view  # type: ignore[attr-defined]


def _debug_has_internal_overlap(self: Tensor) -> int:
    """Return 0 where all elements lie in places of their own, 1 where some share one for sure, 2 where it was not worked out."""
    layout = self._layout
    if self.numel() == 0 or is_dense(layout):
        return 0
    return int(any(size > 1 and not stride for size, stride in zip(layout.shape, layout.strides, strict=True))) or 2


def _efficientzerotensor(
    *size: int | Sequence[int],
    dtype: dtype | None = None,
    layout: object = None,
    device: DeviceLike = None,
    pin_memory: bool = False,
) -> Tensor:
    """Return zeros of a shape; they have memory, as :func:`torch.zeros`."""
    return zeros(*size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
