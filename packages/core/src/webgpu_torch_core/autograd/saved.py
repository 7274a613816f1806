"""Tensors kept for backward."""

from __future__ import annotations

import weakref
from typing import Any

from ..graph import Value
from .node import Node


class SavedTensor:
    """A tensor kept for backward, which notices later in-place changes."""

    __slots__ = ("node", "number", "tensor", "version")

    def __init__(self, tensor: Any) -> None:
        self.version = tensor._storage.version
        # A result that a node saves must not keep that node alive: remember its edge, not its grad_fn.
        self.tensor = tensor

    def unpack(self) -> Any:
        """Return the tensor.

        Raises:
            RuntimeError: it was modified in place since it was saved.
        """
        tensor = self.tensor
        if tensor._storage.version != self.version:
            where = f", which is output {tensor._output_number} of {tensor.grad_fn.name()}," if tensor.grad_fn else ""
            raise _modified(tensor, where, tensor._storage.version, self.version)
        return tensor


class SavedOperand:
    """An operand whose gradient PyTorch writes with the *result*: later writes into the operand do no harm (the old
    value is kept), writes into the result are the error.
    """

    __slots__ = (
        "device",
        "dtype",
        "edge",
        "layout",
        "result",
        "result_version",
        "storage",
        "title",
        "value",
    )

    def __init__(self, tensor: Any, edge: tuple[Node, int] | None, result: Any, title: str) -> None:
        self.storage, self.layout, self.dtype, self.device = (
            tensor._storage,
            tensor._layout,
            tensor.dtype,
            tensor.device,
        )
        self.edge, self.title = edge, title
        value = tensor._storage.value
        if value.__class__ is Value:
            if value.outside and value.shared:
                # Writes from outside would reach what backward needs: it gets a copy.
                value = tensor.detach().as_strided((value.numel,), (1,), 0).clone()._storage.value
            value.saved = True
        self.value = value
        # Weak: the result's memory must not live on for the sake of its version number.
        self.result = weakref.ref(result._storage)
        self.result_version = result._storage.version

    def unpack(self) -> Any:
        """Return the operand as it was.

        Raises:
            RuntimeError: the result was modified in place since.
        """
        result = self.result()
        if result is not None and result.version != self.result_version:
            raise _modified(self, f", which is output 0 of {self.title},", result.version, self.result_version)
        from ..tensor import Storage, Tensor, _storage_numbers

        storage = self.storage
        if storage.value is not self.value:
            storage = Storage.__new__(Storage)
            storage.value, storage.version, storage.number = self.value, 0, next(_storage_numbers)
        tensor = Tensor._from_storage(storage, self.layout, self.dtype, self.device)
        if self.edge is not None:
            tensor._grad_fn, tensor._output_number = self.edge
        return tensor


def _modified(tensor: Any, where: str, version: int, expected: int) -> RuntimeError:
    place = "" if tensor.device.type == "cpu" else f"{tensor.device.type}."
    name: str = tensor.dtype.name
    kind = place + _TYPE_NAMES.get(name, name)
    shape = tensor.layout.shape if isinstance(tensor, SavedOperand) else tensor.shape
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[torch.{kind} {list(shape)}]{where} is at version {version}; expected version {expected} instead. Hint: enable "
        "anomaly detection to find the operation that failed to compute its gradient, with "
        "torch.autograd.set_detect_anomaly(True)."
    )


_TYPE_NAMES = {"float32": "FloatTensor", "float64": "DoubleTensor", "float16": "HalfTensor", "int64": "LongTensor"}
