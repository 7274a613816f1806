"""What nodes of gradients are called, which printed tensors and drawings of graphs show: once, and again where calls are remembered."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours

SHAPES = [(4,), (5, 4), (2, 5, 4), (1, 5, 4), (2, 3, 5, 4)]


def leaf(t: Any, *shape: int) -> Any:
    return (t.arange(float(torch.Size(shape).numel())).reshape(shape) + 1).sin().requires_grad_()


def _products(t: Any) -> list[Any]:
    factors = [(4,), (4, 3), (2, 4, 3), (1, 4, 3), (2, 3, 4, 3)]
    pairs = [(left, right) for left in SHAPES for right in factors if {left[0], right[0]} != {2, 3}]
    found = [
        leaf(t, *left) @ leaf(t, *right) for left, right in pairs if (len(left), len(right)) not in ((3, 4), (4, 3))
    ]
    return [*found, leaf(t, 5, 4).detach() @ leaf(t, 2, 4, 3), t.bmm(leaf(t, 2, 5, 4), leaf(t, 2, 4, 3))]


def _layers(t: Any) -> list[Any]:
    weight, bias = leaf(t, 3, 4), leaf(t, 3)
    inputs = [leaf(t, *each) for each in SHAPES]
    inputs += [leaf(t, *each[:-2], *each[:-3:-1]).mT for each in SHAPES[1:]]
    return [t.nn.functional.linear(each, *more) for each in inputs for more in ((weight,), (weight, bias))]


def _pools(t: Any) -> list[Any]:
    found = []
    for spatial in (1, 2, 3):
        f, image = t.nn.functional, leaf(t, 2, 3, *[4] * spatial)
        for name in ("max_pool", "avg_pool", "lp_pool", "adaptive_max_pool", "adaptive_avg_pool"):
            sizes = (2, 2) if name == "lp_pool" else (2,)
            found += [getattr(f, f"{name}{spatial}d")(each, *sizes) for each in (image, image[0])]
        found += [getattr(f, f"max_pool{spatial}d")(image, 2, return_indices=True)[0]]
        found += [getattr(f, f"adaptive_avg_pool{spatial}d")(image, size) for size in (1, (1,) * spatial)]
    return found


def _resized(t: Any) -> list[Any]:
    modes = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}
    of = t.nn.functional.interpolate
    return [
        of(leaf(t, 1, 2, *[3] * spatial), scale_factor=2, mode=mode)
        for spatial, own in modes.items()
        for mode in (*own, "nearest", "nearest-exact", "area")
    ] + [of(leaf(t, 1, 2, 4, 4), (2, 2), mode="bilinear", antialias=True)]


def _normalised(t: Any) -> list[Any]:
    f, found = t.nn.functional, []
    for shape in ((4, 3, 5), (2, 3, 4, 4)):
        x, (mean, variance), weights = leaf(t, *shape), (t.zeros(3), t.ones(3)), (leaf(t, 3), leaf(t, 3))
        found += [f.batch_norm(x, mean, variance), f.batch_norm(x, mean, variance, *weights, training=True)]
        found += [f.instance_norm(x), f.instance_norm(x, mean, variance, use_input_stats=False)]
        found += [f.group_norm(x, 3), f.group_norm(x, 3, *weights), f.layer_norm(x, shape[2:])]
        found += [t.nn.LayerNorm(shape[-1])(x), f.local_response_norm(x, 2)]
    return found


def _losses(t: Any) -> list[Any]:
    f, x, y = t.nn.functional, leaf(t, 3, 4), t.tensor([0, 1, 2])
    shares = t.ones(3, 4) / 4
    return [
        f.cross_entropy(x, y), f.cross_entropy(x, shares), f.cross_entropy(x, y, label_smoothing=0.1), f.nll_loss(x, y),
        f.cross_entropy(leaf(t, 1, 3, 2, 2), t.zeros(1, 2, 2, dtype=t.int64)), f.multi_margin_loss(x, y),
        f.multilabel_margin_loss(x, t.zeros(3, 4, dtype=t.int64)), f.soft_margin_loss(x, shares), f.mse_loss(x, shares),
        f.pairwise_distance(x, shares), f.pdist(x),
    ]  # fmt: skip


def _others(t: Any) -> list[Any]:
    f, square, line = t.nn.functional, leaf(t, 3, 3), leaf(t, 3)
    image, where = leaf(t, 1, 4, 4, 4), t.tensor([0])
    return [
        f.unfold(image, 2), f.grid_sample(image, t.zeros(1, 2, 2, 2), align_corners=False),
        f.affine_grid(leaf(t, 1, 2, 3), [1, 1, 2, 2], align_corners=False), f.embedding_bag(t.tensor([[0, 1]]), square),
        square.diag(), line.diag(), t.linalg.solve(square + 3 * t.eye(3), line), t.vdot(line, line), t.kron(square, square),
        t.linalg.cross(square, square), t.polar(line, line), square.rot90(), t.block_diag(square, square),
        line.index_fill(0, where, 1.0), line.index_put((where,), leaf(t, 1)), line.remainder(2), line.remainder(line.detach()),
        line.div(2, rounding_mode="trunc"), line.copysign(-1.0), line.copysign(line), line.sgn(), line.sort()[0],
        line.sort(stable=True)[0], t.aminmax(line)[0], f.scaled_dot_product_attention(*[leaf(t, 1, 2, 3, 4)] * 3),
    ]  # fmt: skip


@pytest.mark.parametrize("program", [_products, _layers, _pools, _resized, _normalised, _losses, _others])
def test_names(program: Callable[[Any], list[Any]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = [each.grad_fn.name() for each in program(torch)]
        for _ in range(3):
            assert [each.grad_fn.name() for each in program(ours)] == wanted
