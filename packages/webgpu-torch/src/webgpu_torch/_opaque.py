"""Tensors in oneDNN's layout: their elements, and no memory to look at. Loaded when the first one is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from webgpu_torch_core import Tensor, dtype
from webgpu_torch_core.dispatch.overrides import DisableTorchFunctionSubclass

from .backends.mkldnn import _mkldnn


def _refusing(name: str, error: type[Exception], why: str) -> Callable[..., NoReturn]:
    def refuse(self: OpaqueTensor, *args: object, **kwargs: object) -> NoReturn:
        raise error(why)

    refuse.__name__ = name
    refuse.__doc__ = f"Refuse with {error.__name__}: nobody knows how the elements lie in memory."
    return refuse


class OpaqueTensor(Tensor):
    """A tensor in the layout ``torch._mkldnn``, and so are results of what is computed with it, until :meth:`to_dense`."""

    #: how the elements lie in memory, which is the layout's own business
    layout = _mkldnn
    is_mkldnn = True

    def to_dense(self, dtype: dtype | None = None, *, masked_grad: bool = True) -> Tensor:
        """Return the same elements in the layout ``torch.strided``."""
        with DisableTorchFunctionSubclass():
            found = self.as_subclass(Tensor)
            return found if dtype is None else found.to(dtype)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        """Return the text of a dense tensor, with the layout."""
        return f"{repr(self.to_dense().detach())[:-1]}, layout={self.layout})"

    def __getitem__(self, index: object) -> NoReturn:
        """Refuse with NotImplementedError: views need strides."""
        raise NotImplementedError("as_strided: tensors in the layout torch._mkldnn have no views; use to_dense() first")

    view = _refusing(
        "view", RuntimeError, "Currently Mkldnn tensor does not support view. Change to use reshape instead"
    )
    data_ptr = _refusing("data_ptr", RuntimeError, "Cannot access data pointer of Tensor that doesn't have storage")
    untyped_storage = _refusing("untyped_storage", NotImplementedError, "Cannot access storage of OpaqueTensorImpl")
    numpy = _refusing("numpy", TypeError, "can't convert Mkldnn layout tensor to numpy. Use Tensor.to_dense() first.")
