"""Products in any layouts and types, their operands and exact sums: what the tests of contractions share."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from codegen_harness import TORCH
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from webgpu_torch_core.ir.dtypes import bool_, compute_dtype, dtype, float32, int64
from webgpu_torch_core.ir.expression import accumulator, cast, load
from webgpu_torch_core.ir.kernels import Contraction, Operand, Output, Store

TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


def draw(count: int, check: Callable[[st.DataObject], None], **more: bool) -> None:
    """Run a check over so many drawn cases."""
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    settings(max_examples=count, deadline=None, suppress_health_check=checks, **more)(given(data=st.data())(check))()


def numbers(shape: tuple[int, ...], kind: dtype, seed: int) -> torch.Tensor:
    """Return values whose rounding to ``kind`` is already done."""
    generator = torch.Generator().manual_seed(seed)
    if kind.is_floating_point:
        return torch.randn(shape, generator=generator).to(TORCH[kind.name])
    return torch.randint(0 if kind is bool_ else -50, 2 if kind is bool_ else 50, shape, generator=generator).to(
        TORCH[kind.name]
    )


def matrix(
    shape: tuple[int, int, int], layout: str, kind: dtype, seed: int
) -> tuple[torch.Tensor, tuple[int, int, int]]:
    """Return the buffer of a [batch, rows, k] operand, row-major or with k outermost, and its strides."""
    batch, rows, k = shape
    strides = (rows * k, k, 1) if layout == "r" else (rows * k, 1, rows)
    return numbers((batch * rows * k,), kind, seed), strides


def product(
    b: int, m: int, n: int, k: int, layouts: tuple[str, str] = ("r", "r"), kind: dtype = float32,
    shared: bool = False, result: dtype | None = None,
) -> tuple[Contraction, list[torch.Tensor], np.ndarray]:  # fmt: skip
    """Return a batched product, its operands and its exact accumulators; ``shared`` broadcasts the right operand."""
    total = int64 if kind is int64 else compute_dtype(kind)
    result = result or kind
    left, ls = matrix((b, m, k), layouts[0], kind, 1)
    right, rs = matrix((1 if shared else b, n, k), layouts[1], kind, 2)
    if shared:
        rs = (0, *rs[1:])
    kernel = Contraction(
        (Operand(kind, left.numel()), Operand(kind, right.numel())), (Output(result, b * m * n, None),), (), "product",
        (b,), (m,), (n,), (k,), cast(load(0, 0, (ls[0], ls[1], 0, ls[2]), kind), total),
        cast(load(1, 0, (rs[0], 0, rs[1], rs[2]), kind), total), total,
        (Store(0, 0, (m * n, n, 1), cast(accumulator(total), result)),),
    )  # fmt: skip
    a = view(left, (b, m, k), ls)
    c = view(right, (b, n, k), rs)
    return kernel, [left, right], np.einsum("bmk,bnk->bmn", a, c)


def view(flat: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """Return a strided view in float64, or in int64 for integers."""
    wide = torch.float64 if flat.is_floating_point() else torch.int64
    return flat.to(wide).as_strided(shape, strides).numpy()


def close(got: torch.Tensor, exact: np.ndarray, k: int) -> None:
    """Compare with the exact sums; float32 sums of k products may be off by a few roundings of their magnitude."""
    tolerance = TOLERANCE.get(str(got.dtype).removeprefix("torch."), 0.0)
    if not tolerance:
        np.testing.assert_array_equal(got.numpy(), exact.reshape(-1).astype(got.numpy().dtype))
        return
    wide = got.double().numpy()
    np.testing.assert_allclose(wide, exact.reshape(-1), rtol=tolerance, atol=tolerance * math.sqrt(k + 1))
