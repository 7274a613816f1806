"""What Python asks of tensors to copy them elsewhere: deep copies, pickles, and other libraries through DLPack."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.torch_dispatch import answers
from ...ir.dtypes import dtype
from ...ir.layouts import Layout, contiguous_layout
from ...record.devices import canonical_device
from ...tensors.tensor import MetaValue, Storage, Tensor
from .dlpack import device_of, exported
from .factories import from_bytes
from .strided import empty_strided

#: attributes of a tensor that are its own: copies and files do not have them, as PyTorch's do not
_OWN = ("_made_dual", "_place", "_post_accumulate_grad_hooks")


def kept_attributes(tensor: Tensor) -> dict[str, object]:
    """Return what Python code gave a tensor, as copies and files have it."""
    return {name: each for name, each in tensor.__dict__.items() if name not in _OWN}


def _reduce(self: Tensor, protocol: int) -> Any:
    if isinstance(self._storage.value, MetaValue) and answers(type(self)):
        # It has no elements of its own: its class makes it again of what its attributes hold.
        described = (
            type(self), self.dtype, tuple(self.shape), self.stride(), self.storage_offset(), self.layout, self.device,
            self.requires_grad,
        )  # fmt: skip
        return rebuild_with_state, (rebuild_wrapper, type(self), described, kept_attributes(self))
    if self.is_meta and type(self) is Tensor and not kept_attributes(self):
        return rebuild_without_storage, (self.dtype, tuple(self.shape), self.stride(), self.requires_grad)
    if self.is_meta:
        return _rebuild_meta, (self.__class__, self._layout, self.dtype, self.requires_grad, kept_attributes(self))
    # The storage is pickled once, whoever looks at it: aliases stay aliases.
    return _rebuild, (
        self.__class__, self._storage, self._layout, self.dtype, str(self.device), self.requires_grad, kept_attributes(self),
    )  # fmt: skip


def _rebuild(
    kind: Any, storage: Storage, layout: Layout, dtype: dtype, place: str, requires_grad: bool, attributes: Any
) -> Tensor:
    plain = Tensor._from_storage(storage, layout, dtype, canonical_device(place))
    result = Tensor._make_subclass(kind, plain, requires_grad)
    result.__dict__.update(attributes)
    return result


def _rebuild_meta(kind: Any, layout: Layout, dtype: dtype, requires_grad: bool, attributes: Any) -> Tensor:
    plain = empty_strided(layout.shape, layout.strides, dtype=dtype, device="meta")
    result = Tensor._make_subclass(kind, plain, requires_grad)
    result.__dict__.update(attributes)
    return result


def rebuild_wrapper(
    kind: type[Tensor], dtype: dtype, size: Sequence[int], stride: Sequence[int], offset: int, layout: object, device: object,
    requires_grad: bool,
) -> Tensor:  # fmt: skip
    """Return a tensor of a class that answers operations, without elements, as files of ``torch.save`` describe one."""
    options = {"strides": stride, "storage_offset": offset, "dtype": dtype, "layout": layout, "device": device}
    return Tensor._make_wrapper_subclass(kind, size, **options, requires_grad=requires_grad)  # type: ignore[attr-defined]


def rebuild_with_state(
    function: Callable[..., Tensor], kind: type[Tensor], arguments: tuple[object, ...], state: dict[str, object]
) -> Tensor:
    """Return the tensor of any shape that a function makes, with attributes."""
    made = function(*arguments)
    made.__dict__.update(state)
    return made


def rebuild_without_storage(kind: dtype, shape: Sequence[int], strides: Sequence[int], requires_grad: bool) -> Tensor:
    """Return a tensor of a shape and strides on the device ``meta``, as files of ``torch.save`` describe one."""
    return empty_strided(shape, strides, dtype=kind, device="meta").requires_grad_(requires_grad)


def _reduce_storage(self: Storage) -> Any:
    value = self.value
    return _rebuild_storage, (bytes(value.engine.read(value)), value.dtype, value.engine.device.name)


def _rebuild_storage(data: bytes, kind: dtype, place: str) -> Storage:
    return from_bytes(data, (len(data) // kind.itemsize,), kind, place)._storage


def _dlpack(self: Tensor, *, stream: Any = -1, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> Any:
    """Lend the tensor's memory as a DLPack capsule.

    Raises:
        BufferError: a tensor that requires a gradient, that is not on the CPU, or is to go to another device.
        AssertionError: a stream, of which the CPU has none.
    """
    if stream not in (-1, None):
        raise AssertionError("stream should be None on cpu.")
    if dl_device is not None and tuple(dl_device) != device_of(self):
        raise BufferError(f"cannot lend memory of {self.device} to DLPack device {tuple(dl_device)}")
    return exported(self.clone() if copy else self, max_version)


def _dlpack_device(self: Tensor) -> tuple[int, int]:
    """Return DLPack's numbers of the device type and index."""
    return device_of(self)


def _copied_by_class(self: Tensor, memo: dict[int, object]) -> Tensor:
    """Return a copy of a tensor without elements of its own, whose class knows what it holds.

    Raises:
        RuntimeError: the class's ``clone`` returns a tensor of another.
    """
    copied = memo[id(self)] = self.detach().clone() if type(self).clone is Tensor.clone else self.clone()
    if type(copied) is not type(self):
        raise RuntimeError(
            "The default implementation of __deepcopy__() for wrapper subclasses only works for subclass types that implement "
            "clone() and for which cloning returns another instance of the same subclass. You should either properly implement "
            "clone() for your subclass or override __deepcopy__() if it is intended behavior for clone() to return an instance "
            "of a different type."
        )
    copied._requires_grad = self._requires_grad
    for name, value in kept_attributes(self).items():
        if name not in copied.__dict__:
            copied.__dict__[name] = copy.deepcopy(value, memo)
    return copied


def require_leaf(tensor: Tensor) -> None:
    """Raise a RuntimeError where a tensor that is to be copied with what it holds is the result of an operation."""
    if tensor.grad_fn is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
            "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
            "see https://github.com/pytorch/pytorch/pull/103001"
        )


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    require_leaf(self)
    found = memo.get(id(self))
    if found is not None:
        return found
    if isinstance(self._storage.value, MetaValue) and type(self).__name__ not in ("Tensor", "Parameter"):
        return _copied_by_class(self, memo)
    source = self.detach()
    storage_copy = memo.get(id(self._storage))
    if storage_copy is None:
        value = self._storage.value
        whole = Tensor._from_storage(self._storage, contiguous_layout((value.numel,)), value.dtype, self.device)
        storage_copy = memo[id(self._storage)] = whole.clone()._storage
    result = type(self)._from_storage(storage_copy, source._layout, self.dtype, self.device)
    result._requires_grad = self._requires_grad
    memo[id(self)] = result
    result.__dict__.update(copy.deepcopy(kept_attributes(self), memo))
    if self._grad is not None:
        result._grad = copy.deepcopy(self._grad, memo)
    return result


Tensor.__deepcopy__ = _deepcopy  # type: ignore[attr-defined]
Tensor.__reduce_ex__ = _reduce  # type: ignore[method-assign]
Storage.__reduce__ = _reduce_storage  # type: ignore[method-assign]
Tensor.__dlpack__ = _dlpack  # type: ignore[attr-defined]
Tensor.__dlpack_device__ = _dlpack_device  # type: ignore[attr-defined]
