"""Calls that gradients flow through are remembered, forward and backward: everything is as it is where their Python runs."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock
from weakref import ref

import pytest
import torch as pytorch
import webgpu_torch as torch
import webgpu_torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.multiprocessing.reductions import StorageWeakRef
from webgpu_torch_core.record.devices import canonical_device, engine_for
from webgpu_torch_core.replay import gradients, recipes

ENGINE = engine_for(canonical_device("cpu"))

#: by name an operation and the shapes of its tensors, of sizes a, b and c
CALLS: dict[str, tuple[Callable[..., Any], Callable[[int, int, int], list[tuple[int, ...]]]]] = {
    "linear": (lambda *x: F.linear(*x), lambda a, b, c: [(a, b), (c, b), (c,)]),
    "linear of batches": (lambda *x: F.linear(*x), lambda a, b, c: [(2, a, b), (c, b), (c,)]),
    "without bias": (lambda *x: F.linear(*x), lambda a, b, c: [(2, a, b), (c, b)]),
    "matmul": (lambda *x: torch.matmul(*x), lambda a, b, c: [(2, a, b), (b, c)]),
    "bmm": (lambda *x: torch.bmm(*x), lambda a, b, c: [(2, a, b), (2, b, c)]),
    "addmm": (lambda *x: torch.addmm(*x, beta=0.5, alpha=2.0), lambda a, b, c: [(c,), (a, b), (b, c)]),
    "with itself": (lambda x: torch.addmm(x, x, x), lambda a, b, c: [(a, a)]),
    "layer_norm": (lambda *x: F.layer_norm(x[0], x[1].shape, *x[1:]), lambda a, b, c: [(a, b, c), (c,), (c,)]),
    "rms_norm": (lambda *x: F.rms_norm(x[0], x[1].shape, x[1]), lambda a, b, c: [(a, b, c), (c,)]),
    "conv1d": (lambda *x: F.conv1d(*x, padding=1), lambda a, b, c: [(a, b, c), (2, b, 3), (2,)]),
    "conv2d": (lambda *x: F.conv2d(*x, padding=1), lambda a, b, c: [(1, a, b, c), (2, a, 3, 3), (2,)]),
    "softmax": (lambda x: torch.softmax(x, -1), lambda a, b, c: [(a, b)]),
    "log_softmax": (lambda x: F.log_softmax(x, 0), lambda a, b, c: [(a, b)]),
    "attention": (
        lambda *x: F.scaled_dot_product_attention(*x, is_causal=True),
        lambda a, b, c: [(1, 2, a, b), (1, 2, a, b), (1, 2, a, b)],
    ),
    "attention of places": (
        lambda *x: F.scaled_dot_product_attention(*x[:3], attn_mask=x[3].detach()),
        lambda a, b, c: [(1, 2, a, b), (1, 2, c, b), (1, 2, c, b), (a, c)],
    ),
    "group_norm": (lambda *x: F.group_norm(x[0], 1, *x[1:]), lambda a, b, c: [(a, b, c + 1), (b,), (b,)]),
    "batch_norm": (
        lambda *x: F.batch_norm(x[0], x[1].detach(), x[2].detach() ** 2, *x[3:]),
        lambda a, b, c: [(a, b, c), (b,), (b,), (b,), (b,)],
    ),
    "binary_cross_entropy": (
        lambda x, y: F.binary_cross_entropy_with_logits(x, y.detach().sigmoid()),
        lambda a, b, c: [(a, b), (a, b)],
    ),
    "weighed cross_entropy": (
        lambda x, y: F.cross_entropy(x, x.detach().argmax(1), y.detach() ** 2),
        lambda a, b, c: [(a, b), (b,)],
    ),
    "einsum": (lambda *x: torch.einsum("bij,bkj->bik", *x), lambda a, b, c: [(2, a, b), (2, c, b)]),
    "cat": (lambda *x: torch.cat(x, 1), lambda a, b, c: [(a, b), (a, c)]),
    "stack": (lambda *x: torch.stack(x), lambda a, b, c: [(a, b), (a, b)]),
    "sum": (lambda x: x.sum(0), lambda a, b, c: [(a, b)]),
    "mean": (lambda x: x.mean(-1, keepdim=True), lambda a, b, c: [(a, b)]),
    "var_mean": (lambda x: torch.var_mean(x, 1), lambda a, b, c: [(a, b + 1)]),
    "norm": (lambda x: x.norm(3, 1), lambda a, b, c: [(a, b)]),
    "logsumexp": (lambda x: torch.logsumexp(x, 0), lambda a, b, c: [(a, b)]),
    "cumprod": (lambda x: x.cumprod(1), lambda a, b, c: [(a, b)]),
    "max": (lambda x: x.max(1), lambda a, b, c: [(a, b)]),
    "sort": (lambda x: torch.sort(x, 0), lambda a, b, c: [(a, b)]),
    "roll": (lambda x: x.roll((1, 2), (0, 1)), lambda a, b, c: [(a, b)]),
    "cross_entropy": (lambda x: F.cross_entropy(x, x.detach().argmax(1)), lambda a, b, c: [(a, b)]),
    "scatter": (lambda x, y: x.scatter_add(1, y.detach().argmin(1, True), y), lambda a, b, c: [(a, b), (a, b)]),
    "embedding": (lambda x: F.embedding(torch.arange(3) % x.shape[0], x), lambda a, b, c: [(a, b)]),
    "gather": (lambda x: x.gather(1, x.detach().argsort(1)), lambda a, b, c: [(a, b)]),
    "masked_fill": (lambda x: x.masked_fill(x.detach() > 0, 2.0), lambda a, b, c: [(a, b)]),
}
SIZES = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4))
#: of a tensor: no gradient, a leaf, the result of an operation, a part of a leaf, the transpose of one
KINDS = ("plain", "leaf", "inner", "view", "transposed")


@contextlib.contextmanager
def python_runs() -> Generator[None]:
    """Nothing is remembered of calls that gradients flow through."""

    def call(self: Any, function: Any, args: Any, kwargs: Any, *_: Any) -> Any:
        return function(*args, **kwargs)

    with mock.patch.object(recipes._Tracked, "call", call):
        yield


def made(shape: tuple[int, ...], kind: str, seed: int) -> tuple[Any, Any]:
    """Return a tensor of a kind, and the leaf that its gradient goes to."""
    generator = torch.Generator().manual_seed(seed)
    turned = kind == "transposed" and len(shape) > 1
    stored = (*shape[:-2], shape[-1], shape[-2]) if turned else (shape[0] + 1, *shape[1:]) if kind == "view" else shape
    leaf = torch.randn(stored, generator=generator)
    if kind == "plain":
        return leaf, None
    leaf.requires_grad_()
    if kind == "inner":
        return leaf * 1.5, leaf
    return (leaf.transpose(-1, -2) if turned else leaf[1:] if kind == "view" else leaf), leaf


def seeds_of(results: list[Any], how: str, seed: int) -> list[Any]:
    """Return gradients for results: dense, of one number everywhere, with dimensions exchanged, or of the first result only."""
    generator = torch.Generator().manual_seed(seed)
    found: list[Any] = []
    for each in results:
        shape = each.shape
        if how == "expanded":
            found.append(torch.randn((), generator=generator).expand(shape))
        elif how == "transposed" and len(shape) > 1:
            found.append(torch.randn((*shape[:-2], shape[-1], shape[-2]), generator=generator).transpose(-1, -2))
        else:
            found.append(torch.randn(shape, generator=generator))
    return found[:1] if how == "first" else found


def passed(name: str, sizes: tuple[int, int, int], kinds: list[str], how: str, order: str, seed: int) -> list[Any]:
    """Return all that a program sees of a call and its pass."""
    function, shapes = CALLS[name]
    pairs = [made(shape, kinds[number % len(kinds)], seed + number) for number, shape in enumerate(shapes(*sizes))]
    given, leaves = [each for each, _ in pairs], [leaf for _, leaf in pairs if leaf is not None]
    result = function(*given)
    results = [each for each in (result if isinstance(result, tuple) else (result,)) if each.requires_grad]
    seen: list[Any] = [type(result), [each.grad_fn.name() for each in results]]
    seeds = seeds_of(results, how, seed + 9)
    seen += [(each.detach().tolist(), each.stride(), each.dtype) for each in results]
    if not leaves:
        return seen
    if order == "second":
        first = torch.autograd.grad(results[: len(seeds)], leaves, seeds, create_graph=True, allow_unused=True)
        tracked = [each for each in first if each is not None and each.requires_grad]
        if tracked:
            torch.autograd.backward([(each * each).sum() for each in tracked])
        seen += [None if each is None else each.detach().tolist() for each in first]
    else:
        torch.autograd.backward(results[: len(seeds)], seeds, retain_graph=order == "twice")
        if order == "twice":
            torch.autograd.backward(results[: len(seeds)], seeds)
        elif order == "freed":
            try:
                torch.autograd.backward(results[: len(seeds)], seeds)
            except RuntimeError as error:
                seen.append(str(error))
    seen += [None if each.grad is None else (each.grad.tolist(), each.grad.stride()) for each in leaves]
    return seen


DRAWN = {
    "name": st.sampled_from(list(CALLS)),
    "sizes": SIZES,
    "kinds": st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    "how": st.sampled_from(("dense", "expanded", "transposed", "first")),
    "order": st.sampled_from(("once", "twice", "second", "freed")),
    "seed": st.integers(0, 1000),
}


@settings(max_examples=120, deadline=None)
@given(**DRAWN)
def test_calls_of_one_kind_are_as_their_python_has_them(**drawn: Any) -> None:
    with python_runs():
        expected = passed(**drawn)
    for _ in range(3):
        assert passed(**drawn) == expected


@pytest.mark.parametrize(
    "name", ["linear", "matmul", "layer_norm", "conv2d", "cross_entropy", "embedding", "gather", "sum"]
)
def test_the_same_kernels_are_recorded_without_python(name: str) -> None:
    function, shapes = CALLS[name]
    given = [made(shape, "leaf", number)[0] for number, shape in enumerate(shapes(3, 4, 2))]

    def recorded() -> list[Any]:
        for each in given:
            each.grad = None
        torch.accelerator.synchronize("cpu")
        function(*given).sum().backward()
        return list(ENGINE.kernels)

    with python_runs():
        expected = recorded()
    for _ in range(3):
        recorded()
    with mock.patch.object(gradients._Trace, "run", None):
        assert recorded() == expected


@settings(max_examples=60, deadline=None)
@given(DRAWN["name"], SIZES, DRAWN["kinds"], st.integers(0, 5), st.booleans())
def test_what_is_written_to_is_noticed_alike(
    name: str, sizes: tuple[int, int, int], kinds: list[str], which: int, of_result: bool
) -> None:
    function, shapes = CALLS[name]

    def outcome() -> Any:
        given = [made(shape, kinds[number % len(kinds)], number)[0] for number, shape in enumerate(shapes(*sizes))]
        given = [each * 1 for each in given]
        result = function(*given)
        result = result[0] if isinstance(result, tuple) else result
        if not result.requires_grad:
            return None
        with torch.no_grad():
            (result if of_result else given[which % len(given)]).mul_(2)
        try:
            result.sum().backward()
        except RuntimeError as error:
            return str(error)
        return None

    with python_runs():
        expected = outcome()
    for _ in range(3):
        assert outcome() == expected


def alive(
    name: str, sizes: tuple[int, int, int], tracked: tuple[bool, ...], of_storage: Callable[[Any], Any]
) -> list[bool]:
    """Return which of a call's tensors have memory while nobody but the graph of its result knows them."""
    function, shapes = CALLS[name]
    pairs = zip(shapes(*sizes), tracked, strict=True)
    given = [torch.ones(shape).requires_grad_(each) * 1 for shape, each in pairs]
    found = [of_storage(each) for each in given]
    result = function(*given)
    given.clear()
    lives = [each() for each in found]
    del result
    assert not any(each() for each in found)
    return lives


def of_ours(tensor: Any) -> Callable[[], bool]:
    value = ref(tensor._storage.value)
    return lambda: value() is not None


def of_pytorch(tensor: Any) -> Callable[[], bool]:
    storage = StorageWeakRef(tensor.untyped_storage())
    return lambda: not storage.expired()


@pytest.mark.parametrize("name", CALLS)
def test_no_memory_lives_on_that_python_and_pytorch_let_go(name: str) -> None:
    for sizes in ((2, 3, 4), (1, 1, 1)):
        for tracked in list(product((False, True), repeat=len(CALLS[name][1](*sizes))))[1:]:
            torch.accelerator.synchronize("cpu")
            with python_runs():
                expected = alive(name, sizes, tracked, of_ours)
            with mock.patch.dict(globals(), torch=pytorch, F=pytorch.nn.functional):
                as_pytorch = alive(name, sizes, tracked, of_pytorch)
            for _ in range(3):
                lives = alive(name, sizes, tracked, of_ours)
                assert not any(each > max(kept) for each, *kept in zip(lives, expected, as_pytorch, strict=True))


def test_hooks_of_what_is_saved_and_regions_are_looked_at_each_time() -> None:
    x, weight = torch.randn(3, 4, requires_grad=True), torch.randn(2, 4, requires_grad=True)
    for _ in range(3):
        packed: list[Any] = []
        F.linear(x, weight).sum().backward()
        with torch.autograd.graph.saved_tensors_hooks(lambda each: packed.append(each) or each, lambda each: each):  # noqa: B023
            result = F.linear(x, weight)
        assert packed
        result.sum().backward()
        with torch.autocast("cpu", torch.bfloat16):
            assert F.linear(x, weight).dtype is torch.bfloat16
        with torch.no_grad():
            assert not F.linear(x, weight).requires_grad
        with torch.inference_mode():
            assert F.linear(x, weight).is_inference()
        assert not F.linear(x.detach(), weight.detach()).requires_grad


def test_views_learn_of_gradients_that_their_base_was_given() -> None:
    weight = torch.randn(2, 2, requires_grad=True)
    for _ in range(3):
        base = torch.ones(4, 2)
        part = base[:2]
        assert not (part @ part.t()).requires_grad
        base.mul_(weight.sum())
        assert (part @ part.t()).requires_grad


def test_what_nothing_reads_may_be_written_to() -> None:
    """Classes, and a shift that is added last: higher derivatives are those of what the call was given."""

    def second(function: Callable[..., Any], write: Callable[[Any], Any]) -> Any:
        x, bias = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_(), torch.ones(4, requires_grad=True)
        classes = torch.tensor([0, 3, 1]) + 0
        loss = function(x, bias, classes)
        with torch.no_grad():
            write(bias)
            write(classes)
        (first,) = torch.autograd.grad(loss, x, create_graph=True)
        return first.tolist(), torch.autograd.grad((first * first).sum(), x)[0].tolist()

    for function in (
        lambda x, bias, classes: F.layer_norm(x, (4,), None, bias).pow(2).sum(),
        lambda x, bias, classes: F.cross_entropy(x, classes),
    ):
        with python_runs():
            expected = second(function, lambda each: None)
        for _ in range(3):
            assert second(function, lambda each: each.zero_()) == expected


def test_passes_of_several_threads_add_to_one_leaf() -> None:
    for _ in range(40):
        x = torch.ones(5, 5, requires_grad=True)
        y = x + x**2
        threads = [threading.Thread(target=lambda: (y + y**2).sum().backward(retain_graph=True)) for _ in range(5)]  # noqa: B023
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert x.grad.tolist() == [[75.0] * 5] * 5


def calls_of_python(name: str) -> int:
    """Return how many of our functions a warm call of an operation and its pass run."""
    function, shapes = CALLS[name]
    given = [made(shape, "leaf", number)[0] for number, shape in enumerate(shapes(3, 4, 2))]
    seed = torch.ones(function(*given).shape)
    calls = 0

    def look(frame: Any, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call" and "webgpu_torch" in frame.f_code.co_filename

    for number in range(4):
        for each in given:
            each.grad = None
        sys.setprofile(look if number == 3 else None)
        try:
            function(*given).backward(seed)
        finally:
            sys.setprofile(None)
    return calls


def test_warm_calls_and_their_passes_run_little_python() -> None:
    """Less than half of what the operations run that they are written with."""
    # A process of its own: classes of other tests may override functions, or answer operations.
    code = "from test_remembered_gradients import calls_of_python as run; print([run(each) for each in %s])"
    names = ["linear", "matmul", "layer_norm", "conv2d"]
    found = subprocess.run(
        [sys.executable, "-c", code % names], cwd=Path(__file__).parent, check=True, capture_output=True, text=True
    )
    assert max(json.loads(found.stdout)) <= 170
