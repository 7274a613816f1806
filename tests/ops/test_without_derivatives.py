"""Arguments and operators that PyTorch has no derivative for: what is refused when, in which words, and by nodes of which names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ops_oracle import ORACLE, OURS

Program = Callable[[Any], Any]


def _leaf(t: Any, *shape: int) -> Any:
    return t.linspace(0.1, 0.9, t.zeros(shape).numel()).reshape(shape).requires_grad_()


def _plain(t: Any, *shape: int) -> Any:
    return _leaf(t, *shape).detach()


CLASSES, POINTS, EDGES = [0, 2, 1], [0.0, 0.5, 1.0], [2, 2]
PROGRAMS: dict[str, Program] = {
    "weights of logits": lambda t: t.F.binary_cross_entropy_with_logits(
        _plain(t, 3, 4), _plain(t, 3, 4), weight=_leaf(t, 4)
    ),
    "weights of positive logits": lambda t: t.F.binary_cross_entropy_with_logits(
        _plain(t, 3, 4), _plain(t, 3, 4), pos_weight=_leaf(t, 4)
    ),
    "weights of probabilities": lambda t: t.F.binary_cross_entropy(_plain(t, 3, 4), _plain(t, 3, 4), _leaf(t, 4)),
    "targets of probabilities": lambda t: t.F.binary_cross_entropy(_plain(t, 3, 4), _leaf(t, 3, 4)),
    "weights of classes": lambda t: t.F.cross_entropy(_leaf(t, 3, 4), t.tensor(CLASSES), _leaf(t, 4)),
    "weights of classes, smoothed": lambda t: t.F.cross_entropy(
        _plain(t, 3, 4), t.tensor(CLASSES), _leaf(t, 4), label_smoothing=0.1
    ),
    "weights of shares": lambda t: t.F.cross_entropy(_plain(t, 3, 4), _plain(t, 3, 4), _leaf(t, 4)),
    "weights of one row": lambda t: t.F.nll_loss(_plain(t, 4), t.tensor(1), _leaf(t, 4)),
    "weights of sequences": lambda t: t.F.nll_loss(_plain(t, 3, 4, 2), t.zeros(3, 2, dtype=t.int64), _leaf(t, 4)),
    "weights of images": lambda t: t.F.cross_entropy(
        _plain(t, 1, 4, 2, 2), t.zeros(1, 2, 2, dtype=t.int64), _leaf(t, 4)
    ),
    "weights of margins": lambda t: t.F.multi_margin_loss(_plain(t, 3, 4), t.tensor(CLASSES), weight=_leaf(t, 4)),
    "targets of margins": lambda t: t.F.soft_margin_loss(_plain(t, 3), _leaf(t, 3)),
    "running mean": lambda t: t.F.batch_norm(_plain(t, 3, 4), _leaf(t, 4), _plain(t, 4)),
    "running variance": lambda t: t.F.batch_norm(_plain(t, 3, 4), _plain(t, 4), _leaf(t, 4)),
    "running mean in training": lambda t: t.F.batch_norm(_plain(t, 3, 4), _leaf(t, 4), _plain(t, 4), training=True),
    "running mean of instances": lambda t: t.F.instance_norm(_plain(t, 2, 4, 3), _leaf(t, 4), _plain(t, 4)),
    "running mean of given instances": lambda t: t.F.instance_norm(
        _plain(t, 2, 4, 3), _leaf(t, 4), _plain(t, 4), use_input_stats=False
    ),
    "running mean, natively": lambda t: t.native_batch_norm(
        _plain(t, 3, 4), None, None, _leaf(t, 4), _plain(t, 4), False, 0.1, 1e-5
    )[0],
    "relative tolerance": lambda t: t.linalg.pinv(_plain(t, 2, 2), rtol=_leaf(t, 1)[0]),
    "absolute tolerance": lambda t: t.linalg.pinv(_plain(t, 2, 2), atol=_leaf(t, 1)[0]),
    "random regions": lambda t: t.F.fractional_max_pool2d(
        _plain(t, 1, 4, 4), 2, output_size=2, _random_samples=_leaf(t, 1, 1, 2)
    ),
    "weights of counts": lambda t: t.bincount(t.tensor(CLASSES), weights=_leaf(t, 3)),
    "values in bins": lambda t: t.histogram(_leaf(t, 3), 3)[0],
    "values in given bins": lambda t: t.histogram(_leaf(t, 3), t.tensor(POINTS))[0],
    "edges of bins": lambda t: t.histogram(_leaf(t, 3), 3)[1],
    "weights in bins": lambda t: t.histogram(_plain(t, 3), 3, weight=_leaf(t, 3))[0],
    "points in bins": lambda t: t.histogramdd(_leaf(t, 3, 2), EDGES)[0],
    "edges of bins of points": lambda t: t.histogramdd(_leaf(t, 3, 2), EDGES)[1][0],
    "points in given bins": lambda t: t.histogramdd(_leaf(t, 3, 2), [t.tensor(POINTS), t.tensor(POINTS)])[0],
    "given edges": lambda t: t.histogramdd(_leaf(t, 3, 2), [t.tensor(POINTS), t.tensor(POINTS)])[1][0],
    "weights of points": lambda t: t.histogramdd(_plain(t, 3, 2), EDGES, weight=_leaf(t, 3))[0],
    "counts of trials": lambda t: t.binomial(_leaf(t, 3), _plain(t, 3)),
    "chances of trials": lambda t: t.binomial(_plain(t, 3), _leaf(t, 3)),
    "steps": lambda t: t.heaviside(_leaf(t, 3), _leaf(t, 3)),
    "whole parts": lambda t: _leaf(t, 3) // 2,
    "distinct elements": lambda t: _leaf(t, 3).unique(),
    "runs of elements": lambda t: _leaf(t, 3).unique_consecutive(),
    "distinct rows": lambda t: t.unique(_leaf(t, 3, 2), dim=0),
    "reflections": lambda t: t.geqrf(_leaf(t, 2, 2))[0],
    "factors of a symmetric matrix": lambda t: t.linalg.ldl_factor(_leaf(t, 2, 2))[0],
    "solutions by these": lambda t: t.linalg.ldl_solve(
        _leaf(t, 2, 2), t.tensor([1, 2], dtype=t.int32), _plain(t, 2, 1)
    ),
}


def _told(program: Program, t: Any) -> tuple[str, ...]:
    """Return what a program and its backward pass say: names of nodes, types and texts of errors."""
    try:
        result = program(t)
    except Exception as error:  # noqa: BLE001 - whatever it is is compared
        return "refused", type(error).__name__, str(error)
    if result.grad_fn is None:
        return ("no gradient",)
    node = result.grad_fn
    try:
        result.sum().backward()
    except Exception as error:  # noqa: BLE001 - whatever it is is compared
        return type(node).__name__, node.name(), type(error).__name__, str(error)
    return type(node).__name__, node.name()


@pytest.mark.parametrize("name", PROGRAMS)
def test_refused_alike(name: str) -> None:
    assert _told(PROGRAMS[name], OURS) == _told(PROGRAMS[name], ORACLE)


@pytest.mark.parametrize("name", ["weights of logits", "weights of classes", "running mean", "targets of margins"])
def test_nothing_is_refused_where_no_gradients_are_recorded(name: str) -> None:
    def without(t: Any) -> Any:
        with t.no_grad():
            return PROGRAMS[name](t)

    assert _told(without, OURS) == _told(without, ORACLE) == ("no gradient",)
