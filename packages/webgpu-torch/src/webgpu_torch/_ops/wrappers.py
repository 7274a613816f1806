"""``torch.Tensor._make_wrapper_subclass``: tensors with a shape, strides, a type and a device, but without a storage."""

from __future__ import annotations

from collections.abc import Sequence

from webgpu_torch_core import Tensor, get_default_dtype, strided
from webgpu_torch_core import device as device_type
from webgpu_torch_core.dispatch.torch_dispatch import Value, answers
from webgpu_torch_core.ir.layouts import contiguous_layout
from webgpu_torch_core.ir.layouts import layout as make_layout
from webgpu_torch_core.record.devices import canonical_device, meta_engine, no_engine
from webgpu_torch_core.tensors.storage import MetaValue, new_storage, require_differentiable


def make_wrapper_subclass(
    cls: type[Tensor],
    size: Sequence[int],
    strides: Sequence[int] | None = None,
    storage_offset: int | None = None,
    memory_format: Value = None,
    dtype: Value = None,
    layout: Value = strided,
    device: Value = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    _extra_dispatch_keys: object = None,
    storage_size: int | None = None,
) -> Value:
    """Return a tensor of a class that answers its operations itself (``__torch_dispatch__``): it holds no elements.

    Args:
        cls: the class.
        size, strides, storage_offset, dtype, device: what the tensor says of itself; contiguous where no strides are given.
        requires_grad: whether gradients with respect to it are recorded.

    Raises:
        TypeError: the class does not answer.
        NotImplementedError: sizes and strides are to be asked of the class, too.
    """
    if not answers(cls):
        raise TypeError(
            f"{cls.__name__} has no __torch_dispatch__: a tensor without elements has to answer its operations"
        )
    if dispatch_sizes_strides_policy is not None:
        raise NotImplementedError(
            "dispatch_sizes_strides_policy: sizes and strides of a wrapper are those it is made with"
        )
    dtype = get_default_dtype() if dtype is None else dtype
    place = canonical_device(device_type("cpu" if device is None else device))
    shape = tuple(int(each) for each in size)
    plain = contiguous_layout(shape)
    offset = storage_offset or 0
    steps = plain.strides if strides is None else tuple(int(each) for each in strides)
    require_differentiable(dtype, requires_grad, "Only Tensors of floating point and complex dtype")
    numel = 2 * plain.numel if dtype.is_complex else plain.numel
    value = MetaValue(meta_engine, dtype.to_real(), numel)
    value.engine = no_engine
    storage = new_storage(value)
    made: Value = cls._from_storage(storage, make_layout(shape, steps, offset), dtype, place)
    made._requires_grad = requires_grad
    return made


Tensor._make_wrapper_subclass = staticmethod(make_wrapper_subclass)  # type: ignore[attr-defined]
