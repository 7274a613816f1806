"""A call of a kind seen before records the same kernels over new values, and nothing else changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import webgpu_torch as torch
import webgpu_torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_core.dispatch import overrides
from webgpu_torch_core.record.devices import canonical_device, engine_for
from webgpu_torch_core.record.engine import Engine
from webgpu_torch_core.record.lone import LONE_AFTER
from webgpu_torch_core.record.series import Series
from webgpu_torch_core.replay import recipes

ENGINE = engine_for(canonical_device("cpu"))


def draw(*shape: int) -> Any:
    return torch.randn(*shape)


CALLS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "linear": (F.linear, lambda: (draw(3, 4), draw(5, 4), draw(5))),
    "matmul": (torch.matmul, lambda: (draw(2, 3, 4), draw(4, 5))),
    "addmm": (lambda *x: torch.addmm(*x, beta=0.5, alpha=2.0), lambda: (draw(5), draw(3, 4), draw(4, 5))),
    "softmax": (lambda x: torch.softmax(x, -1), lambda: (draw(3, 7),)),
    "log_softmax": (lambda x: F.log_softmax(x, dim=0), lambda: (draw(3, 7),)),
    "layer_norm": (lambda *x: F.layer_norm(x[0], (6,), *x[1:]), lambda: (draw(3, 6), draw(6), draw(6))),
    "rms_norm": (lambda *x: F.rms_norm(x[0], [6], x[1]), lambda: (draw(3, 6), draw(6))),
    "group_norm": (lambda *x: F.group_norm(x[0], 2, *x[1:]), lambda: (draw(3, 6, 5), draw(6), draw(6))),
    "batch_norm": (F.batch_norm, lambda: (draw(2, 6, 5), draw(6), draw(6).abs(), draw(6), draw(6))),
    "conv2d": (lambda *x: F.conv2d(*x, padding=1), lambda: (draw(1, 2, 5, 5), draw(3, 2, 3, 3), draw(3))),
    "attention": (
        lambda *x: F.scaled_dot_product_attention(*x, is_causal=True),
        lambda: (draw(1, 2, 4, 3), draw(1, 2, 4, 3), draw(1, 2, 4, 3)),
    ),
    "cat": (lambda *x: torch.cat(x, 1), lambda: (draw(2, 3), draw(2, 4))),
    "stack": (lambda *x: torch.stack(list(x)), lambda: (draw(2, 3), draw(2, 3))),
    "mean": (lambda x: x.mean(-1, keepdim=True), lambda: (draw(3, 7),)),
    "std": (lambda x: torch.std(x, -1), lambda: (draw(3, 7),)),
    "logsumexp": (lambda x: torch.logsumexp(x, 0), lambda: (draw(3, 7),)),
    "norm": (lambda x: x.norm(3, 1), lambda: (draw(3, 7),)),
    "amax": (lambda x: x.amax((0, 1)), lambda: (draw(3, 7),)),
    "cumprod": (lambda x: x.cumprod(1), lambda: (draw(3, 7),)),
    "roll": (lambda x: x.roll((1, 2), (0, 1)), lambda: (draw(3, 7),)),
    "repeat": (lambda x: x.repeat(2, 1, 3), lambda: (draw(3, 7),)),
    "sort": (lambda x: torch.sort(x, 0, True).values, lambda: (draw(3, 7),)),
    "topk": (lambda x: x.topk(3)[0], lambda: (draw(3, 7),)),
    "max": (lambda x: x.max(1).values, lambda: (draw(3, 7),)),
    "with itself": (lambda x: torch.addmm(x, x, x), lambda: (draw(3, 3),)),
    "einsum": (lambda *x: torch.einsum("bij,bkj->bik", *x), lambda: (draw(2, 3, 4), draw(2, 5, 4))),
}

#: which arguments gradients may not flow to
CONSTANT = {"batch_norm": (1, 2)}


def recorded(function: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    torch.accelerator.synchronize("cpu")
    # What read each result before would run a kernel at once, without recording it.
    ENGINE.recorder.lone = 0
    result = function(*given)
    return result, list(ENGINE.kernels)


@pytest.mark.parametrize("name", CALLS)
def test_calls_of_one_kind_record_the_same_kernels(name: str) -> None:
    function, arguments = CALLS[name]
    with torch.no_grad():
        _, first = recorded(function, arguments())
        given = arguments()
        found, again = recorded(function, given)
    assert again == first
    # Calls that gradients flow through have recipes of their own.
    tracked = [each.clone().requires_grad_(number not in CONSTANT.get(name, ())) for number, each in enumerate(given)]
    expected = function(*tracked)
    assert expected.requires_grad
    assert found.dtype is expected.dtype
    assert found.shape == expected.shape
    assert found.stride() == expected.stride()
    assert torch.allclose(found, expected.detach(), rtol=1e-6, atol=1e-6)
    expected.sum().backward()
    assert all((each.grad is not None) is each.requires_grad for each in tracked)


@pytest.mark.parametrize("name", CALLS)
def test_kinds_first_called_where_each_result_is_read_are_remembered(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, arguments = CALLS[name]
    # A kind of its own, whatever ran before.
    given = tuple(each.double() for each in arguments())
    with torch.no_grad():
        for _ in range(LONE_AFTER + 2):
            (given[0] + 1).tolist()
        assert ENGINE.recorder.lone >= LONE_AFTER
        expected = function(*given).tolist()
        monkeypatch.setattr(recipes, "_watched", None)
        for _ in range(3):
            assert function(*given).tolist() == expected


@pytest.mark.parametrize("name", ["addmm", "std", "layer_norm", "rms_norm", "logsumexp", "batch_norm"])
def test_what_merges_is_recorded_as_one_kernel_from_the_first_call_on(name: str) -> None:
    function, arguments = CALLS[name]
    given = arguments()
    # A kind of its own, whatever ran before: with other operations of the same tape before and after it.
    given = (torch.cat([given[0], given[0]]) if name not in ("addmm",) else given[0] * 2, *given[1:])
    with torch.no_grad():
        for _ in range(3):
            torch.accelerator.synchronize("cpu")
            before = given[0] + 1
            start = len(ENGINE.kernels)
            found = function(given[0], *given[1:])
            assert len(ENGINE.kernels) == start + 1
            after = found * 2 + before.sum()
            expected = function(*(each.clone().requires_grad_() for each in given)).detach()
            assert torch.allclose(found, expected, rtol=1e-6, atol=1e-6)
            assert torch.allclose(after, expected * 2 + (given[0] + 1).sum(), rtol=1e-6, atol=1e-6)


def test_shapes_types_and_numbers_are_kinds_of_their_own() -> None:
    for size in (3, 4, 3, 0, 3):
        x, y = draw(2, size), draw(size, 2)
        assert torch.allclose(x @ y, (x.unsqueeze(-1) * y).sum(1), atol=1e-6)
    x = torch.arange(6).reshape(2, 3)
    assert (x @ x.t()).dtype is torch.int64
    assert (x.double() @ x.t().double()).tolist() == [[5.0, 14.0], [14.0, 50.0]]
    for dim, total in ((0, 3), (1, 2), (-1, 2), (-2, 3), (0, 3)):
        assert F.softmax(x.double(), dim).sum().item() == pytest.approx(total)
    for beta in (1, 2, 0.5, 1.0, 0):
        found = torch.addmm(torch.ones(2), torch.eye(2), torch.eye(2), beta=beta)
        assert found.tolist() == [[1.0 + beta, float(beta)], [float(beta), 1.0 + beta]]


@pytest.mark.parametrize("name", ["max", "sort", "topk", "kthvalue", "cummax", "var_mean"])
def test_several_results(name: str) -> None:
    given = {"max": (1,), "topk": (2,), "kthvalue": (2,), "cummax": (0,)}.get(name, ())
    for _ in range(3):
        x = draw(4, 5)
        found = getattr(torch, name)(x, *given)
        expected = getattr(torch, name)(x.clone().requires_grad_(), *given)
        assert type(found) is type(expected)
        assert getattr(found, "_fields", None) == getattr(expected, "_fields", None)
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.stride() == theirs.stride()
            assert torch.equal(ours, theirs.detach())
        found[0].zero_()
        assert not torch.equal(x, torch.zeros(4, 5))


def test_what_writes_to_an_argument_writes_each_time() -> None:
    for _ in range(3):
        table = torch.full((4, 3), 2.0)
        F.embedding(torch.tensor([1, 2]), table, max_norm=1.0)
        assert table[1].norm().item() == pytest.approx(1.0, rel=1e-3)
        assert table[0].norm().item() == pytest.approx(2.0 * 3**0.5)


#: operations that look at positions in a dimension of size 5, of which 3 stands for none in losses; the positions that they refuse
READERS: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "nll_loss": (lambda x, at: F.nll_loss(x, at, ignore_index=3), (5, -1)),
    "cross_entropy": (lambda x, at: F.cross_entropy(x, at, ignore_index=3, label_smoothing=0.5), (5, -7)),
    "gather": (lambda x, at: x.gather(1, at[:, None]), (5, -1)),
    "index_select": (lambda x, at: x.index_select(1, at), (6, -1)),
    "embedding": (lambda x, at: F.embedding(at, x.t()), (5, -1)),
    "take": (lambda x, at: x.take(at - 1), (5 * 4 + 1, -5 * 4)),
}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(list(READERS)),
    st.lists(st.tuples(st.lists(st.integers(0, 4), min_size=4, max_size=4), st.booleans(), st.booleans()), min_size=4),
    st.integers(0, 3),
)
def test_positions_are_looked_at_each_time(name: str, calls: list[tuple[list[int], bool, bool]], place: int) -> None:
    """Numbers are known to the host or not, and right or wrong, in any order."""
    function, refused = READERS[name]
    x = draw(4, 5)
    for positions, known, wrong in calls:
        numbers = [*positions[:place], refused[known], *positions[place + 1 :]] if wrong else positions
        at = torch.tensor(numbers)
        torch.accelerator.synchronize("cpu")
        at = at if known else at + 0
        if wrong:
            with torch.no_grad(), pytest.raises((IndexError, RuntimeError)):
                function(x, at).tolist()
            continue
        with torch.no_grad():
            found = function(x, at)
        # Calls that gradients flow through have recipes of their own.
        assert torch.equal(found, function(x.clone().requires_grad_(), at).detach()) or found.isnan().all()


@pytest.mark.parametrize("name", ["nll_loss", "cross_entropy"])
def test_losses_of_known_classes_are_remembered(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, classes = draw(4, 5), torch.tensor([1, 3, 0, 4])
    torch.accelerator.synchronize("cpu")
    with torch.no_grad():
        for _ in range(2):
            expected = READERS[name][0](x, classes)
        monkeypatch.setattr(recipes, "_watched", None)
        found = READERS[name][0](x, classes)
    assert found.tolist() == expected.tolist()


def test_both_zeros() -> None:
    x, mask = torch.ones(2), torch.tensor([True, False])
    with torch.no_grad():
        for value in (0.0, -0.0, 0.0, -0.0):
            assert torch.masked_fill(x, mask, value).tolist()[0].hex() == value.hex()


def test_an_argument_given_twice() -> None:
    x, y = draw(4, 4), draw(4, 4)
    for left, right in ((x, y), (x, x), (y, y), (y, x)):
        assert torch.allclose(left @ right, (left.unsqueeze(-1) * right).sum(1), atol=1e-6)


def test_views_of_one_memory() -> None:
    x = draw(2, 4, 4)
    for left, right in ((x[0], x[1]), (x[1], x[0]), (x[0], x[0]), (x[0].t(), x[1])):
        assert torch.allclose(left @ right, (left.unsqueeze(-1) * right).sum(1), atol=1e-6)


def test_results_are_new_tensors() -> None:
    with torch.no_grad():
        first, second = (torch.softmax(torch.zeros(2, 2), 1) for _ in range(2))
        first.add_(1)
        assert second.tolist() == [[0.5, 0.5], [0.5, 0.5]]
        target = torch.empty(2, 2)
        for _ in range(3):
            assert torch.softmax(torch.zeros(2, 2), 1, out=target) is target
            assert target.tolist() == second.tolist()
            assert torch.matmul(torch.eye(2), torch.eye(2), out=target) is target
            assert target.tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_memory_that_is_seen_outside() -> None:
    array = numpy.ones((2, 2), dtype=numpy.float32)
    shared = torch.from_numpy(array)
    with torch.no_grad():
        for value in (1.0, 2.0, 3.0):
            array[:] = value
            found = torch.matmul(shared, shared.clone())
            array[:] = 99.0
            assert found.tolist() == [[2 * value * value] * 2] * 2


def test_autocast_and_gradients_are_looked_at_each_time() -> None:
    x, y = draw(2, 3), draw(3, 2)
    assert (x @ y).dtype is torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert (x @ y).dtype is torch.bfloat16
        assert torch.einsum("ij,jk", x, y).dtype is torch.bfloat16
    assert torch.einsum("ij,jk", x, y).dtype is torch.float32
    y.requires_grad_()
    assert (x @ y).requires_grad
    with torch.no_grad():
        assert not (x @ y).requires_grad


def test_attention_drops_other_weights_each_time() -> None:
    x = [draw(1, 1, 8, 8) for _ in range(3)]
    first, second = (F.scaled_dot_product_attention(*x, dropout_p=0.5) for _ in range(2))
    assert not torch.equal(first, second)
    assert F.scaled_dot_product_attention(*x).shape == F.scaled_dot_product_attention(*x, dropout_p=0.5).shape


def test_devices_without_data_and_other_devices() -> None:
    for _ in range(2):
        meta = torch.softmax(torch.empty(2, 3, device="meta"), 1)
        assert meta.device.type == "meta"
        assert torch.softmax(torch.zeros(1, 2), 1).tolist() == [[0.5, 0.5]]
        with pytest.raises(RuntimeError, match="same device"):
            torch.cat([torch.zeros(1, device="meta"), torch.zeros(1)])


def test_a_class_of_tensors_of_its_own_keeps_its_class() -> None:
    class Marked(torch.Tensor):
        pass

    x = torch.eye(2)
    x @ x.clone()
    assert type(x.as_subclass(Marked) @ x) is Marked
    assert type(x @ x.clone()) is torch.Tensor


def frames_of_dispatch(call: Any) -> list[str]:
    """Return the functions of ours between a warm call and the recorder."""
    for _ in range(3):
        call()
    found: list[str] = []

    def look(frame: Any, event: str, given: object) -> None:
        if event == "call" and frame.f_code in (Engine.record.__code__, Series.record.__code__) and not found:
            outer = frame.f_back
            while outer.f_code is not call.__code__:
                found.append(outer.f_code.co_qualname)
                outer = outer.f_back

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("gradients", [False, True])
def test_two_frames_lie_between_a_warm_call_and_the_recorder(gradients: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Classes of other tests may override functions.
    monkeypatch.setattr(overrides, "_active", False)
    x = torch.ones(2, 3, requires_grad=gradients)
    weight = torch.ones(3, 3)
    warm = {
        "operator": lambda: x + 1,
        "function": lambda: torch.exp(x),
        "method": lambda: x.tanh(),
        "swapped": lambda: 2 * x,
    }
    if not gradients:
        # What is written with other operations runs its Python where gradients are recorded.
        warm |= {
            "softmax": lambda: torch.softmax(x, -1),
            "by name": lambda: x.softmax(dim=-1),
            "sum": lambda: x.sum(0, keepdim=True),
            "linear": lambda: F.linear(x, weight),
            "cat": lambda: torch.cat([x, x]),
        }
    for name, call in warm.items():
        assert 1 <= len(frames_of_dispatch(call)) <= 2, (name, frames_of_dispatch(call))
