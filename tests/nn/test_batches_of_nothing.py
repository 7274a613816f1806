"""Functions and layers of batches without an element: shapes, types, whether gradients flow, and what their passes leave, are PyTorch's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import webgpu_torch as ours

Program = Callable[[Any, Callable[..., Any]], Any]


def _labels(t: Any, *shape: int) -> Any:
    return t.zeros(shape, dtype=t.int64)


FUNCTIONS: dict[str, Program] = {
    "grid_sample": lambda t, x: t.nn.functional.grid_sample(x(0, 1, 3, 3), x(0, 2, 2, 2), align_corners=False),
    "grid_sample nowhere": lambda t, x: t.nn.functional.grid_sample(x(1, 1, 3, 3), x(1, 0, 2, 2), align_corners=False),
    "group_norm": lambda t, x: t.nn.functional.group_norm(x(0, 4), 2),
    "group_norm, weighted": lambda t, x: t.nn.functional.group_norm(x(0, 4, 2), 2, x(4), x(4)),
    "batch_norm": lambda t, x: t.nn.functional.batch_norm(x(0, 4), None, None, x(4), x(4), training=True),
    "layer_norm": lambda t, x: t.nn.functional.layer_norm(x(0, 4), (4,), x(4)),
    "rms_norm": lambda t, x: t.nn.functional.rms_norm(x(0, 4), (4,)),
    "instance_norm": lambda t, x: t.nn.functional.instance_norm(x(0, 4, 3)),
    "conv2d": lambda t, x: t.nn.functional.conv2d(x(0, 2, 5, 5), x(3, 2, 3, 3), x(3)),
    "conv_transpose2d": lambda t, x: t.nn.functional.conv_transpose2d(x(0, 2, 5, 5), x(2, 3, 3, 3)),
    "linear": lambda t, x: t.nn.functional.linear(x(0, 4), x(3, 4), x(3)),
    "embedding": lambda t, x: t.nn.functional.embedding(_labels(t, 0), x(5, 3)),
    "embedding_bag": lambda t, x: t.nn.functional.embedding_bag(_labels(t, 0, 2), x(4, 3)),
    "max_pool2d": lambda t, x: t.nn.functional.max_pool2d(x(0, 2, 4, 4), 2),
    "max_unpool2d": lambda t, x: t.nn.functional.max_unpool2d(x(0, 1, 2, 2), _labels(t, 0, 1, 2, 2), 2),
    "max_unpool3d": lambda t, x: t.nn.functional.max_unpool3d(x(0, 1, 2, 2, 2), _labels(t, 0, 1, 2, 2, 2), 2),
    "avg_pool2d": lambda t, x: t.nn.functional.avg_pool2d(x(0, 2, 4, 4), 2),
    "adaptive_avg_pool2d": lambda t, x: t.nn.functional.adaptive_avg_pool2d(x(0, 2, 4, 4), 1),
    "interpolate": lambda t, x: t.nn.functional.interpolate(x(0, 2, 4, 4), scale_factor=2.0, mode="bilinear"),
    "pad": lambda t, x: t.nn.functional.pad(x(0, 2, 4, 4), (1, 1, 1, 1), mode="reflect"),
    "unfold": lambda t, x: t.nn.functional.unfold(x(0, 2, 4, 4), 2),
    "fold": lambda t, x: t.nn.functional.fold(x(0, 8, 9), (4, 4), 2),
    "attention": lambda t, x: t.nn.functional.scaled_dot_product_attention(x(0, 2, 3, 4), x(0, 2, 3, 4), x(0, 2, 3, 4)),
    "cross_entropy": lambda t, x: t.nn.functional.cross_entropy(x(0, 4), _labels(t, 0)),
    "mse_loss": lambda t, x: t.nn.functional.mse_loss(x(0, 4), x(0, 4)),
    "logits": lambda t, x: t.nn.functional.binary_cross_entropy_with_logits(x(0, 4), x(0, 4)),
    "triplets": lambda t, x: t.nn.functional.triplet_margin_loss(x(0, 3), x(0, 3), x(0, 3)),
    "cosine_similarity": lambda t, x: t.nn.functional.cosine_similarity(x(0, 3), x(0, 3)),
    "normalize": lambda t, x: t.nn.functional.normalize(x(0, 3)),
    "bilinear": lambda t, x: t.nn.functional.bilinear(x(0, 2), x(0, 3), x(4, 2, 3)),
    "local_response_norm": lambda t, x: t.nn.functional.local_response_norm(x(0, 4, 3), 2),
    "glu": lambda t, x: t.nn.functional.glu(x(0, 4)),
    "prelu": lambda t, x: t.nn.functional.prelu(x(0, 3), x(1)),
    "softmax": lambda t, x: x(0, 4).softmax(-1),
    "logsumexp": lambda t, x: x(0, 4).logsumexp(1),
    "var": lambda t, x: x(0, 4).var(0),
    "norm": lambda t, x: x(0, 4).norm(),
    "amax": lambda t, x: x(0, 4).amax(1),
    "sort": lambda t, x: x(0, 4).sort(1)[0],
    "topk": lambda t, x: x(0, 4).topk(2)[0],
    "median": lambda t, x: x(0, 4).median(1)[0],
    "cat": lambda t, x: t.cat([x(0, 4), x(2, 4)]),
    "products of nothing": lambda t, x: x(3, 0) @ x(0, 4),
    "bmm": lambda t, x: t.bmm(x(0, 2, 3), x(0, 3, 2)),
    "einsum": lambda t, x: t.einsum("bij,bjk->bik", x(0, 2, 3), x(0, 3, 2)),
    "indexing": lambda t, x: x(3, 4)[_labels(t, 0)],
    "scatter_add": lambda t, x: x(3, 4).scatter_add(0, _labels(t, 0, 4), x(0, 4)),
    "index_add": lambda t, x: x(3, 4).index_add(0, _labels(t, 0), x(0, 4)),
    "cdist": lambda t, x: t.cdist(x(0, 3), x(2, 3)),
    "solve": lambda t, x: t.linalg.solve(x(0, 3, 3), x(0, 3, 2)),
    "svd": lambda t, x: t.linalg.svd(x(0, 3, 2))[1],
    "lstm": lambda t, x: t.nn.LSTM(3, 4, batch_first=True)(x(0, 5, 3))[0],
    "gru": lambda t, x: t.nn.GRU(3, 4, batch_first=True)(x(0, 5, 3))[0],
    "heads": lambda t, x: t.nn.MultiheadAttention(4, 2, batch_first=True)(x(0, 3, 4), x(0, 3, 4), x(0, 3, 4))[0],
    "encoder": lambda t, x: t.nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)(x(0, 3, 4)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_batches_of_nothing(name: str) -> None:
    def told(t: Any) -> Any:
        made: list[Any] = []

        def ones(*shape: int) -> Any:
            made.append(t.ones(shape, requires_grad=True))
            return made[-1]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = FUNCTIONS[name](t, ones)
            own = any(result is each for each in made)
            described = (
                tuple(result.shape),
                result.stride(),
                str(result.dtype).rpartition(".")[2],
                result.requires_grad,
                own,
            )
            result.sum().backward()
        left = [None if each.grad is None else (tuple(each.grad.shape), each.grad.tolist()) for each in made]
        return described, repr(left)

    assert told(ours) == told(torch)
