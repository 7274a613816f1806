"""Products of matrices under PyTorch's private names: of small integers, and followed by an activation."""

from __future__ import annotations

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.dispatch.overrides import wrap_torch_function
from webgpu_torch_core.operations.common import dtype_title
from webgpu_torch_nn.functional import gelu


@wrap_torch_function(lambda self, mat2, **options: (self, mat2))
def _int_mm(self: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the product of matrices of int8 [n, m] and [m, p], summed in int32 [n, p].

    Raises:
        RuntimeError: other types or dimensions, or sizes that do not fit.
    """
    for name, each, types in (("self", self, (torch.int8, torch.uint8)), ("mat2", mat2, (torch.int8,))):
        if each.ndim != 2:
            raise RuntimeError(f"int_mm_out_cpu: Expected {name} to be of dimension 2 but got {each.ndim}")
        if each.dtype not in types:
            expected = " or ".join(kind.name for kind in types)
            raise RuntimeError(
                f"int_mm_out_cpu: Expected {name} dtype to be {expected} but got {dtype_title(each.dtype)}"
            )
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"int_mm_out_cpu: self.size(1) needs to match mat2.size(0) but got {self.shape[1]} and {mat2.shape[0]}"
        )
    product = torch.mm(self.to(torch.int32), mat2.to(torch.int32))
    if out is None:
        return product
    if out.dtype is not torch.int32 or out.shape != product.shape:
        raise RuntimeError(f"int_mm_out_cpu: Expected result to be of type Int and sizes {list(product.shape)}")
    return out.copy_(product)


@wrap_torch_function(lambda self, mat1, mat2, **options: (self, mat1, mat2))
def _addmm_activation(
    self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1, use_gelu: bool = False,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return ``relu`` of :func:`torch.addmm`, or ``gelu`` of it."""
    total = torch.addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    result = gelu(total) if use_gelu else torch.relu(total)
    return result if out is None else out.resize_(result.shape).copy_(result)


@wrap_torch_function(lambda input, mat2, scales: (input, mat2, scales))
def _weight_int8pack_mm(input: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    """Return ``input @ mat2.T * scales``: input [n, k] of floats, weights [m, k] of int8, one scale for each row [m].

    Raises:
        RuntimeError: other types or sizes.
    """
    if input.ndim != 2 or not input.is_floating_point():
        raise RuntimeError("_weight_int8pack_mm_cpu : expect A to be 2D tensor of floating-point numbers.")
    if mat2.ndim != 2 or mat2.dtype is not torch.int8 or mat2.shape[1] != input.shape[1]:
        raise RuntimeError("_weight_int8pack_mm_cpu : expect B to be int8 2D tensor with as many columns as A.")
    if scales.shape != mat2.shape[:1]:
        raise RuntimeError("_weight_int8pack_mm_cpu : expect scales to be 1d tensor with a number for each row of B.")
    wide = torch.mm(input.to(torch.float32), mat2.to(torch.float32).t())
    return (wide * scales.to(torch.float32)).to(input.dtype)
