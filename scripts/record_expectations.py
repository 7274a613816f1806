"""Records what PyTorch computes for the conformance page: ``python scripts/record_expectations.py`` rewrites the file.

A case is an expression over ``torch`` and named inputs; the page evaluates the same text with this library.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

TARGET = Path(__file__).parent.parent / "packages/web/src/webgpu_torch_web/site/expectations.json"
FLOATS, WHOLE, LOGICAL = ("float32", "float16"), ("int32", "int64"), ("bool",)
NUMBERS = FLOATS + WHOLE

#: family -> (element types of the inputs, expressions; the operation is the name that follows "torch.", "F." or "x.")
FAMILIES: dict[str, tuple[tuple[str, ...], str]] = {
    "element by element": (
        FLOATS,
        """
        torch.acos(unit) | torch.acosh(large) | torch.asin(unit) | torch.asinh(x) | torch.atan(x) | torch.atanh(unit)
        torch.ceil(x) | torch.cos(x) | torch.cosh(x) | torch.deg2rad(x) | torch.digamma(large) | torch.erf(x) | torch.erfc(x)
        torch.erfinv(unit) | torch.exp(x) | torch.exp2(x) | torch.expm1(x) | torch.floor(x) | torch.frac(x) | torch.i0(x)
        torch.lgamma(large) | torch.log(large) | torch.log10(large) | torch.log1p(large) | torch.log2(large)
        torch.logit(large / 8) | torch.rad2deg(unit) | torch.reciprocal(large) | torch.round(x)
        torch.rsqrt(large) | torch.sigmoid(x) | torch.sin(x) | torch.sinc(x) | torch.sinh(x) | torch.sqrt(large)
        torch.tan(unit) | torch.tanh(x) | torch.trunc(x) | torch.isnan(special) | torch.isinf(special)
        torch.isfinite(special) | torch.isposinf(special) | torch.isneginf(special) | torch.nan_to_num(special, 1.0, 4.0, -4.0)
        torch.signbit(special) | torch.relu(special) | torch.round(x, decimals=1) | torch.special.entr(large)
        torch.special.log_ndtr(unit)
        """,
    ),
    "element by element, any number": (
        NUMBERS,
        """
        torch.abs(x) | torch.neg(x) | torch.positive(x) | torch.sign(x) | torch.square(x) | torch.sgn(x)
        torch.clamp(x, -1, 2) | torch.clamp(x, min=y) | torch.ceil(y)
        """,
    ),
    "two operands": (
        NUMBERS,
        """
        torch.add(x, y) | torch.add(x, y, alpha=2) | torch.sub(x, y) | torch.rsub(x, y) | torch.mul(x, y) | torch.div(x, large)
        torch.div(x, large, rounding_mode="floor") | torch.div(x, large, rounding_mode="trunc") | torch.floor_divide(x, large)
        torch.remainder(x, large) | torch.fmod(x, large) | torch.maximum(x, y) | torch.minimum(x, y) | torch.fmax(x, y)
        torch.fmin(x, y) | torch.eq(x, x.flip(0)) | torch.ne(x, y) | torch.lt(x, y) | torch.le(x, y) | torch.gt(x, y)
        torch.ge(x, y) | torch.isclose(x, y) | torch.where(x > y, x, y) | torch.addcmul(x, y, large)
        torch.pow(large, 2) | torch.sub(x, row) | torch.mul(x, 3)
        """,
    ),
    "two operands, floats": (
        FLOATS,
        """
        torch.atan2(x, y) | torch.hypot(x, y) | torch.copysign(x, y) | torch.logaddexp(x, y) | torch.logaddexp2(x, y)
        torch.xlogy(large, large) | torch.lerp(x, y, 0.25) | torch.addcdiv(x, y, large) | torch.pow(large, unit)
        torch.heaviside(x, y) | torch.ldexp(x, row) | torch.nextafter(x, y)
        torch.maximum(special, row) | torch.special.xlog1py(large, large)
        """,
    ),
    "bits": (
        WHOLE,
        """
        torch.bitwise_and(x, y) | torch.bitwise_or(x, y) | torch.bitwise_xor(x, y) | torch.bitwise_not(x)
        torch.bitwise_left_shift(x, 2) | torch.bitwise_right_shift(x, 1) | torch.gcd(x, y) | torch.lcm(x, y)
        """,
    ),
    "truth": (
        LOGICAL,
        """
        torch.logical_and(x, y) | torch.logical_or(x, y) | torch.logical_xor(x, y) | torch.logical_not(x)
        torch.bitwise_and(x, y) | torch.bitwise_or(x, y) | torch.bitwise_xor(x, y) | torch.bitwise_not(x) | torch.sum(x, 0)
        torch.any(x, 1) | torch.all(x, 0) | torch.all(torch.logical_or(x, ~x)) | torch.where(x, y, ~y) | torch.cumsum(x, 0)
        torch.cat([x, y]) | torch.flip(x, [0, 1]) | torch.nonzero(x) | torch.count_nonzero(x, 1) | torch.argmax(x.int(), 1)
        torch.masked_select(y, x) | torch.masked_fill(x, y, True) | torch.eq(x, y) | torch.sort(x, dim=1, stable=True)
        torch.add(x, y) | torch.mul(x, y) | torch.maximum(x, y)
        """,
    ),
    "reductions": (
        NUMBERS,
        """
        torch.sum(x) | torch.sum(x, 1, keepdim=True) | torch.prod(large[:2, :3], 1) | torch.amax(x, 0) | torch.amin(x, (0, 1))
        torch.max(x, 1) | torch.min(x, 0) | torch.argmax(x, 1) | torch.argmin(x) | torch.aminmax(x, dim=0) | torch.all(x, 0)
        torch.any(x, 1) | torch.count_nonzero(x) | torch.cumsum(x, 1) | torch.cumprod(large[:2, :3], 0) | torch.cummax(x, 1)
        torch.cummin(x, 0) | torch.median(x, 1) | torch.trace(x) | torch.diff(x)
        """,
    ),
    "reductions, floats": (
        FLOATS,
        """
        torch.mean(x) | torch.mean(x, 0) | torch.var(x, 1) | torch.std(x, 0, correction=0) | torch.var_mean(x, 1)
        torch.std_mean(x) | torch.norm(x) | torch.logsumexp(x, 1) | torch.nansum(special) | torch.nanmean(special[2:])
        torch.linalg.vector_norm(x, 3, 1) | torch.logcumsumexp(x, 1) | torch.amax(special[:3], 0) | torch.renorm(x, 2, 0, 1.0)
        """,
    ),
    "order": (
        NUMBERS,
        """
        torch.sort(x, 1) | torch.sort(x, dim=0, descending=True, stable=True) | torch.argsort(x.flatten()[:7]) | torch.topk(x, 2, 1)
        torch.kthvalue(x, 2, 1) | torch.msort(x) | torch.unique(x) | torch.searchsorted(large.flatten().sort().values, large)
        torch.bucketize(x, row.sort().values) | torch.isin(x, row)
        """,
    ),
    "shapes": (
        ("float32", "int64", "float16"),
        """
        torch.reshape(x, (4, 3)) | torch.transpose(x, 0, 1) | torch.permute(cube, (2, 0, 1)) | torch.flip(x, [1])
        torch.roll(x, 1, 0) | torch.rot90(x) | torch.cat([x, y], 1) | torch.stack([x, y], 1) | torch.split(x, 2, 1)
        torch.chunk(x, 2) | torch.squeeze(x[:1]) | torch.unsqueeze(x, 1) | torch.broadcast_to(row, (3, 4)) | torch.tile(x, (1, 2))
        torch.flatten(cube, 1) | torch.narrow(x, 1, 1, 2) | torch.select(x, 0, 1) | torch.diag(x) | torch.tril(x)
        torch.triu(x, 1) | torch.movedim(cube, 0, 2) | torch.tensor_split(x, 3, 1) | torch.repeat_interleave(x, 2, 1)
        torch.meshgrid(row, row[:2], indexing="ij") | torch.diagonal(x) | torch.diag_embed(row) | torch.fliplr(x)
        torch.hstack([x, y]) | torch.vstack([x, y]) | torch.unbind(x) | torch.swapaxes(cube, 0, 1) | torch.combinations(row)
        x.unfold(1, 2, 1) | x.expand(2, 3, 4) | x.repeat(2, 1) | x[1:, ::2] | x[:, [2, 0]]
        """,
    ),
    "indices": (
        ("float32", "int32", "int64"),
        """
        torch.index_select(x, 1, at) | torch.gather(x, 1, grid) | torch.scatter(x, 1, grid, y[:, :2])
        torch.scatter_add(x, 1, grid, y[:, :2]) | torch.index_add(x, 1, at, y[:, :2]) | torch.index_fill(x, 1, at, 7)
        torch.masked_fill(x, x > y, 5) | torch.masked_select(x, x > y) | torch.take(x, at) | torch.take_along_dim(x, grid, 1)
        torch.nonzero(x > y) | torch.index_copy(x, 1, at, y[:, :2]) | torch.scatter_reduce(x, 1, grid, y[:, :2], "amax")
        torch.argwhere(x > y) | torch.put(x, at, row[:2]) | torch.bincount(grid.flatten())
        """,
    ),
    "products": (
        FLOATS,
        """
        torch.matmul(x, y.t()) | torch.mm(x, y.t()) | torch.bmm(cube, cube.transpose(1, 2)) | torch.mv(x, row)
        torch.dot(row, row) | torch.outer(row, row) | torch.addmm(x[:, :3], x, y.t()) | torch.einsum("ij,kj->ik", x, y)
        torch.kron(x[:2, :2], y[:2, :2]) | torch.tensordot(x, y, dims=([1], [1])) | torch.baddbmm(cube[:, :, :3], cube, cube.mT)
        torch.inner(x, y) | torch.cross(x[:, :3], y[:, :3], dim=1) | torch.vdot(row, row) | torch.addmv(x[:, 0], x, row)
        torch.linalg.matrix_norm(x) | torch.linalg.multi_dot([x, y.t(), x])
        """,
    ),
    "networks": (
        FLOATS,
        """
        F.softmax(x, 1) | F.log_softmax(x, 0) | F.softmin(x, 1) | F.gelu(x) | F.gelu(x, approximate="tanh") | F.silu(x)
        F.elu(x) | F.selu(x) | F.celu(x) | F.leaky_relu(x) | F.hardtanh(x) | F.hardswish(x) | F.hardsigmoid(x) | F.softplus(x)
        F.softsign(x) | F.mish(x) | F.prelu(x, row) | F.glu(x) | F.relu6(x) | F.logsigmoid(x) | F.tanhshrink(x)
        F.softshrink(x) | F.hardshrink(x) | F.threshold(x, 0.1, 2.0) | F.linear(x, y, row[:3]) | F.layer_norm(x, (4,), row, row)
        F.rms_norm(x, (4,), row) | F.group_norm(cube, 3, row[:3]) | F.normalize(x) | F.cosine_similarity(x, y)
        F.pairwise_distance(x, y) | F.pad(x, (1, 2)) | F.pad(cube, (1, 1), mode="reflect") | F.embedding(grid, x.t())
        F.conv1d(cube, cube[:, :, :3]) | F.conv2d(image, kernel, padding=1) | F.conv2d(image, kernel, row[:2], stride=2)
        F.conv_transpose2d(image[:, :2], kernel, stride=2) | F.max_pool2d(image, 2) | F.avg_pool2d(image, 2)
        F.adaptive_avg_pool2d(image, 2) | F.max_pool1d(cube, 2) | F.interpolate(image, scale_factor=2)
        F.interpolate(image, size=(3, 7), mode="bilinear") | F.pixel_shuffle(image.reshape(1, 4, 3, 4), 2) | F.unfold(image, 2)
        F.mse_loss(x, y) | F.l1_loss(x, y) | F.smooth_l1_loss(x, y) | F.huber_loss(x, y) | F.cross_entropy(x, target)
        F.nll_loss(x, target) | F.kl_div(x, F.softmax(y, 1), reduction="batchmean")
        F.binary_cross_entropy_with_logits(x, torch.sigmoid(y)) | F.scaled_dot_product_attention(cube, cube, cube)
        F.scaled_dot_product_attention(cube, cube, cube, is_causal=True) | F.one_hot(target, 4) | F.instance_norm(cube)
        F.batch_norm(cube, row[:3], row[:3].abs() + 1) | F.local_response_norm(cube, 2) | F.channel_shuffle(image, 2)
        """,
    ),
    "gradients": (
        ("float32",),
        """
        grad(torch.tanh, x) | grad(lambda t: torch.softmax(t, 1), x) | grad(lambda t: t @ y.t(), x)
        grad(lambda t: F.layer_norm(t, (4,)), x) | grad(lambda t: F.cross_entropy(t, target), x)
        grad(lambda t: F.conv2d(t, kernel), image) | grad(lambda t: F.max_pool2d(t, 2), image) | grad(torch.erf, x)
        grad(lambda t: t.sort(1).values, x) | grad(lambda t: t.cumprod(1), large) | grad(lambda t: t[:, at], x)
        grad(lambda t: torch.logsumexp(t, 1), x) | grad(lambda t: t.norm(), x) | grad(torch.sigmoid, x)
        grad(lambda t: F.gelu(t), x) | grad(lambda t: torch.where(t > y, t * t, y), x) | grad(lambda t: t.var(1), x)
        """,
    ),
    "makers": (
        NUMBERS,
        """
        torch.arange(1, 9, 2, dtype=kind) | torch.full((2, 3), 3, dtype=kind) | torch.eye(3, dtype=kind)
        torch.zeros(2, 2, dtype=kind) | torch.ones_like(x) | torch.linspace(0, 8, 5, dtype=kind) | torch.full_like(x, 2)
        torch.tril_indices(3, 3) | torch.vander(row) | x.to(torch.float32) | x.to(torch.int32) | x.to(torch.bool)
        """,
    ),
}


def inputs(kind: str) -> dict[str, torch.Tensor]:
    """Return the inputs of one element type: quarters, so that halves hold them and integers are their truncation."""
    quarters = torch.arange(-12, 12).mul(7).remainder(23).sub(11)
    values = {
        "x": quarters[:12].reshape(3, 4) / 4,
        "y": quarters[12:].reshape(3, 4) / 4 + 0.125,
        "row": quarters[3:7] / 4,
        "unit": quarters[:12].reshape(3, 4) / 16,
        "large": quarters[:12].reshape(3, 4).abs() / 4 + 1,
        "cube": quarters.reshape(2, 3, 4) / 8,
        "image": torch.arange(48).mul(5).remainder(17).sub(8).reshape(1, 4, 3, 4) / 8,
        "kernel": torch.arange(32).mul(3).remainder(11).sub(5).reshape(2, 4, 2, 2) / 8,
    }
    if kind == "bool":
        return {name: value.mul(4).to(torch.int32).remainder(2).bool() for name, value in values.items()}
    if kind.startswith("int"):
        values = {name: value * 4 for name, value in values.items()}
    else:
        special = [math.nan, math.inf, -math.inf, -0.0, 1.5, -2.0, 0.25, 3.0, -1.0, 2.0, 0.0, -4.0]
        values["special"] = torch.tensor(special).reshape(3, 4)
    return {name: value.to(getattr(torch, kind)) for name, value in values.items()}


#: inputs that are positions whatever the type
POSITIONS = {
    "at": torch.tensor([2, 0]),
    "grid": torch.tensor([[0, 1], [3, 2], [1, 0]]),
    "target": torch.tensor([1, 0, 3]),
}


def grad(function: Any, x: torch.Tensor) -> torch.Tensor:
    """Return the gradient of a function's result, each element weighted by its position."""
    leaf = x.detach().clone().requires_grad_()
    result = function(leaf)
    weights = torch.arange(1, result.numel() + 1).reshape(result.shape).to(result.dtype)
    (result * weights).sum().backward()
    return leaf.grad


def name_of(text: str) -> str:
    """Return the operation of an expression; a gradient's is the function that is differentiated."""
    dotted = re.findall(r"(?:torch|F|t)\.([a-z_0-9.]+[a-z_0-9])", text)
    if text.startswith("grad("):
        return f"gradient of {dotted[0] if dotted else 'indexing' if '[' in text else 'matmul'}"
    if text.startswith("x"):
        found = re.match(r"x\.([a-z_]+)", text)
        return found.group(1) if found else "indexing"
    return dotted[0] if not text.startswith("F.") else f"nn.functional.{dotted[0]}"


def number(value: Any) -> Any:
    """Return a number as JSON has it, with no more digits than float32 tells apart."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(value)
        return float(f"{value:.9g}")
    return value


def described(value: torch.Tensor) -> list[Any]:
    """Return a tensor as [type, shape, numbers]."""
    flat = [number(each) for each in value.flatten().tolist()]
    return [str(value.dtype).removeprefix("torch."), list(value.shape), flat]


def evaluated(text: str, kind: str, given: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """Return the results of an expression."""
    names = {"torch": torch, "F": torch.nn.functional, "grad": grad, "kind": getattr(torch, kind)}
    result = eval(text, {**names, **given, **POSITIONS})
    return list(result) if isinstance(result, tuple | list) else [result]


def is_sound(text: str, results: list[torch.Tensor]) -> bool:
    """Return whether PyTorch's halves are what its single precision makes of the same inputs, within half of a tolerance.

    Where its own roundings on the way add up to more, there is no one right answer to expect.
    """
    exact = evaluated(text, "float16", {name: value.float() for name, value in inputs("float16").items()})
    wanted = [each.to(one.dtype) for each, one in zip(exact, results)]
    try:
        torch.testing.assert_close(results, wanted, rtol=0.5e-3, atol=0.5e-5, equal_nan=True)
    except AssertionError:
        return False
    return True


def cases() -> Iterator[list[Any]]:
    """Yield [operation, element type, expression, results]."""
    for kinds, block in FAMILIES.values():
        for kind in kinds:
            for text in (
                each.strip() for line in block.strip().splitlines() for each in line.split(" | ") if each.strip()
            ):
                try:
                    results = evaluated(text, kind, inputs(kind))
                except (RuntimeError, NotImplementedError, TypeError, IndexError) as error:
                    # PyTorch has no such operation for this type; the page asks for nothing that it has not.
                    print(f"left out, {kind}: {text}: {str(error).splitlines()[0][:80]}")
                    continue
                if kind == "float16" and not is_sound(text, results):
                    print(f"left out, {kind}: {text}: PyTorch's own roundings add up")
                    continue
                yield [name_of(text), kind, text, [described(each) for each in results]]


def main() -> None:
    """Write the file."""
    kinds = (*FLOATS, *WHOLE, *LOGICAL)
    given = {kind: {name: described(value) for name, value in inputs(kind).items()} for kind in kinds}
    positions = {name: described(value) for name, value in POSITIONS.items()}
    recorded = list(cases())
    operations = {each[0] for each in recorded}
    content = {"torch": torch.__version__, "inputs": given, "positions": positions}
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in recorded)
    head = json.dumps(content, separators=(",", ":"))[:-1]
    TARGET.write_text(f'{head},\n"cases":[\n{lines}\n]}}\n', encoding="utf-8")
    print(f"{len(recorded)} expectations over {len(operations)} operations, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
