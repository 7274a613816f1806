"""Arrays that share a CPU tensor's memory: writes from either side are seen when PyTorch sees them, and gradients stay right."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from ops_oracle import ORACLE, OURS


def _both(work: Callable[[Any], list[Any]]) -> None:
    expected, found = work(ORACLE), work(OURS)
    for theirs, ours in zip(expected, found, strict=True):
        numpy.testing.assert_allclose(_plain(ours), _plain(theirs), rtol=1.3e-6, atol=1e-5)


def _plain(value: Any) -> Any:
    return numpy.array(value if isinstance(value, numpy.ndarray) else value.detach().tolist())


def _saved_operand(t: Any) -> list[Any]:
    x, w = t.tensor([1.0, 2.0, 3.0]), t.ones(3, requires_grad=True)
    y = (x * w).sum()
    array = x.numpy()
    y.backward()
    array[0] = 9
    return [w.grad, x, array]


def _written_before_backward(t: Any) -> list[Any]:
    x, w = t.tensor([1.0, 2.0, 3.0]), t.ones(3, requires_grad=True)
    array = x.numpy()
    y = (x * w).sum()
    array[0] = 9
    y.backward()
    return [w.grad, x]


def _written_after_an_operation(t: Any) -> list[Any]:
    x = t.ones(3)
    before = x * 3
    array = x.numpy()
    y = x * 2 + 1
    array[1] = 5
    z = x * 2
    array[1] = 6
    return [before, y, z, x]


def _array_is_the_tensor(t: Any) -> list[Any]:
    array = numpy.ones(4, numpy.float32)
    x = t.from_numpy(array)
    y = x + 1
    array[:] = 7
    x[1:3].mul_(2)
    return [y, x, array]


def _gradient_of_a_result(operation: str) -> Callable[[Any], list[Any]]:
    def work(t: Any) -> list[Any]:
        w = t.tensor([0.5, -0.25, 2.0], requires_grad=True)
        first = getattr(w, operation)()
        array = w.detach().numpy()
        # PyTorch keeps the results: what happens to the operand does not matter.
        array[0] = 4
        with t.no_grad():
            w.add_(1)
        second = getattr(w, operation)()
        array[2] = 0.75
        (first.sum() * 2 + second.sum()).backward()
        return [w.grad, first, second, w, array]

    return work


def _view(t: Any) -> list[Any]:
    x = t.arange(12.0).reshape(3, 4)
    array = x[1:, ::2].numpy()
    x.t()[2].add_(10)
    array[0, 0] = -1
    return [x, array, x.t().numpy(), t.tensor(True).numpy(), t.tensor([[1, 2], [3, 4]], dtype=t.float16).numpy()]


WORK = {
    "saved operand": _saved_operand,
    "written before backward": _written_before_backward,
    "written after an operation": _written_after_an_operation,
    "array is the tensor": _array_is_the_tensor,
    "view": _view,
    **{each: _gradient_of_a_result(each) for each in ("exp", "tanh", "sigmoid", "relu")},
}


@pytest.mark.parametrize("name", sorted(WORK))
def test_as_pytorch(name: str) -> None:
    _both(WORK[name])


@pytest.mark.parametrize("t", [ORACLE, OURS], ids=["oracle", "ours"])
def test_writes_into_a_saved_result_are_noticed(t: Any) -> None:
    w = t.ones(3, requires_grad=True)
    y = w.exp()
    array = y.detach().numpy()
    y.detach().add_(1)
    numpy.testing.assert_allclose(array, numpy.exp(numpy.ones(3)) + 1, rtol=1e-6)
    with pytest.raises(
        RuntimeError, match=r"inplace operation: \[torch\.FloatTensor \[3\]\], which is output 0 of Exp"
    ):
        y.sum().backward()


def test_sharing_ends_with_the_last_array() -> None:
    x = OURS.ones(4)
    array = x.numpy()
    part = array[1:3]
    del array
    gc.collect()
    y = x * 2
    assert y._storage.value.buffer is not None, "a part of the array may be written: what reads it runs at once"
    part[0] = 5
    assert x.tolist() == [1, 5, 1, 1]
    assert y.tolist() == [2, 2, 2, 2]
    del part
    gc.collect()
    assert (x * 2)._storage.value.buffer is None, "nobody outside sees the memory any more: recording may wait"
