"""Powers and exponentials of matrices."""

from __future__ import annotations

from typing import Any

from ...dispatch.registry import operation
from ...ir.dtypes import bfloat16, float16, float32
from ...tensors.memory_formats import contiguous_format
from ...tensors.tensor import Tensor
from ..common import attach, needs_gradient
from ..contraction.matrix_products import matmul
from ..creation.ranges import eye
from ..host_algorithms import host_call
from ..movement.joining import cat
from ..outputs import into
from .common import adjoint, require_square
from .solving import inv


@operation("contraction", namespace="linalg", method=False, name="matmul")
def matmul_of_linalg(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """As :func:`torch.matmul`."""
    return matmul(input, other, out=out)


@operation("composite", namespace="linalg", method=False)
def matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """The ``n``-th power of square matrices, by repeated squaring; negative powers are of the inverse.

    Raises:
        RuntimeError: matrices that are not square.
    """
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        require_square("linalg.matrix_power", A)
    base = inv(A) if n < 0 else A
    count = power = abs(n)
    if count == 0:
        # A copy that is overwritten: its gradient is zero, not absent.
        own = A.clone(memory_format=contiguous_format)
        return into(own.copy_(eye(A.shape[-1], dtype=A.dtype, device=A.device)), out)
    result: Any = None
    while count:
        if count & 1:
            result = base if result is None else result @ base
        count >>= 1
        base = base @ base if count else base
    # PyTorch converts what no product writes into ``out``: copies, and what is squared to the end.
    result = result.clone(memory_format=contiguous_format) if result is A else result
    return into(result, out, n == -1 or power in (2, 3) or power & (power - 1) != 0)


@operation("composite", name="matrix_power")
def matrix_power_of_torch(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """As :func:`torch.linalg.matrix_power`."""
    return matrix_power(input, n, out=out)


@operation("composite", namespace="linalg", method=False)
def matrix_exp(A: Tensor) -> Tensor:
    """Exponentials of square matrices.

    Raises:
        RuntimeError: matrices that are not square.
    """
    if A.dtype in (float16, bfloat16):
        return matrix_exp(A.to(float32)).to(A.dtype)
    require_square("linalg.matrix_exp", A)
    (result,) = host_call("matrix_exp", (A,), (A.shape,), (A.dtype,))
    if needs_gradient(A):
        saved = A._save()

        def run_backward(grad: Tensor) -> Any:
            A = saved.unpack()
            # The upper right block of exp([[A^H, g], [0, A^H]]) (Najfeld and Havel, 1995).
            turned = adjoint(A)
            top, bottom = cat([turned, grad], -1), cat([turned.new_zeros(turned.shape), turned], -1)
            size = A.shape[-1]
            return matrix_exp(cat([top, bottom], -2))[..., :size, size:]

        attach(result, "LinalgMatrixExpBackward0", (A,), run_backward)
    return result


@operation("composite", name="matrix_exp")
def matrix_exp_of_torch(input: Tensor) -> Tensor:
    """As :func:`torch.linalg.matrix_exp`."""
    return matrix_exp(input)
