"""``torch.backends.mkldnn``: tensors may say that they lie in oneDNN's layout; what computes is this library, switched on or not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from webgpu_torch_core import Tensor, dtype, layout
from webgpu_torch_core.dispatch.overrides import public as _public

#: the layout of what :meth:`torch.Tensor.to_mkldnn` returns
_mkldnn = layout("_mkldnn")
#: types of elements that oneDNN takes
_KINDS = ("float32", "bfloat16", "float16", "uint8", "int8")
enabled = True
deterministic = False
allow_tf32 = False
fp32_precision = "none"
VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2


def is_available() -> bool:
    """Return True: :meth:`torch.Tensor.to_mkldnn` is there."""
    return True


def is_built() -> bool:
    """Return True: :meth:`torch.Tensor.to_mkldnn` is there."""
    return True


def is_acl_available() -> bool:
    """Return False: Arm's library is not used."""
    return False


def set_flags(
    _enabled: bool | None = None, _deterministic: bool | None = None, _allow_tf32: bool | None = None,
    _fp32_precision: str | None = "none",
) -> tuple[bool, bool, bool, str]:  # fmt: skip
    """Keep switches, but for those that are None, and return what they were; they change no result."""
    global enabled, deterministic, allow_tf32, fp32_precision
    before = (enabled, deterministic, allow_tf32, fp32_precision)
    enabled = enabled if _enabled is None else _enabled
    deterministic = deterministic if _deterministic is None else _deterministic
    allow_tf32 = allow_tf32 if _allow_tf32 is None else _allow_tf32
    fp32_precision = fp32_precision if _fp32_precision is None else _fp32_precision
    return before


@contextlib.contextmanager
def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"
) -> Iterator[None]:
    """Set the switches for a while."""
    before = set_flags(enabled, deterministic, allow_tf32, fp32_precision)
    try:
        yield
    finally:
        set_flags(*before)


def _to_mkldnn(self: Tensor, dtype: dtype | None = None) -> Tensor:
    """Return the tensor's elements in oneDNN's layout, opaque to programs; ``to_dense`` brings them back.

    Args:
        self: a tensor on the CPU of at most five dimensions, of floats of 16 or 32 bits or of bytes.
        dtype: the type of the result's elements; the tensor's if None.

    Raises:
        RuntimeError: a tensor of another kind, or on another device.
    """
    if self.device.type != "cpu":
        raise RuntimeError(f"dense_to_mkldnn expects CPU tensor input, got one on {self.device}")
    if self.dtype.name not in _KINDS:
        raise RuntimeError("dense_to_mkldnn expects float, bfloat16, half, uint8, int8 tensor input")
    if self.ndim > 5:
        raise RuntimeError("Can't convert cpu tensor with the number of dimensions > 5")
    from .._opaque import OpaqueTensor

    made = self.clone() if dtype is None else self.to(dtype, copy=True)
    return made.as_subclass(OpaqueTensor)


Tensor.to_mkldnn = _public(_to_mkldnn, "torch.Tensor.to_mkldnn")  # type: ignore[attr-defined]
