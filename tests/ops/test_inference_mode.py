"""Inference mode, the switches of gradients inside of it, and writes that are counted, next to PyTorch."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pytest
import torch
import webgpu_torch as ours
from hypothesis import given, settings
from hypothesis import strategies as st

SWITCHES = {
    "inference": lambda library: library.inference_mode(),
    "no inference": lambda library: library.inference_mode(False),
    "enabled": lambda library: library.enable_grad(),
    "disabled": lambda library: library.no_grad(),
    "set": lambda library: library.set_grad_enabled(True),
    "unset": lambda library: library.set_grad_enabled(False),
}


def _state(library: Any, weight: Any) -> list[Any]:
    made, product, leaf = library.ones(2), weight * 2, library.ones(2, requires_grad=True)
    return [
        library.is_grad_enabled(), library.is_inference_mode_enabled(), made.is_inference(), product.requires_grad,
        product.is_leaf, product.is_inference(), leaf.is_inference(), (leaf * weight).requires_grad, weight[:1].is_inference(),
    ]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(sorted(SWITCHES)), max_size=4))
def test_switches_inside_of_each_other(names: list[str]) -> None:
    found: list[list[Any]] = []
    for library in (torch, ours):
        weight, states = library.ones(2, requires_grad=True), []
        with contextlib.ExitStack() as stack:
            for name in names:
                stack.enter_context(SWITCHES[name](library))
                states.append(_state(library, weight))
        found.append([*states, _state(library, weight)])
    assert found[0] == found[1]


def _saved_by_a_function(library: Any, inference: Any, weight: Any) -> Any:
    class Saving(library.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, other: Any) -> Any:
            ctx.save_for_backward(other)
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, None

    return Saving.apply(weight, inference).requires_grad


#: what is done outside with a tensor of inference mode
USES: dict[str, Any] = {
    "counted": lambda library, x, w: x._version,
    "written": lambda library, x, w: x.add_(1),
    "a part written": lambda library, x, w: x[:1].add_(1),
    "an item written": lambda library, x, w: x.__setitem__(0, 3.0),
    "resized": lambda library, x, w: x.resize_(1),
    "as a result": lambda library, x, w: library.add(library.ones(2), 1, out=x),
    "tracked": lambda library, x, w: x.requires_grad_(),
    "saved": lambda library, x, w: x * w,
    "saved by a function": _saved_by_a_function,
    "added": lambda library, x, w: (x + w).requires_grad,
    "computed with": lambda library, x, w: (x * 2).is_inference(),
    "viewed": lambda library, x, w: x[:1].is_inference(),
    "copied": lambda library, x, w: (x.clone() * w).requires_grad,
    "read": lambda library, x, w: library.ones(2).add_(x).is_inference(),
    "as a gradient": lambda library, x, w: ((w * 2).backward(x), w.grad.is_inference(), w.grad.tolist()),
}


@pytest.mark.parametrize("name", USES)
@pytest.mark.parametrize("switch", ["enable_grad", "no_grad", "inference_mode"])
def test_uses_of_tensors_of_inference_mode(name: str, switch: str) -> None:
    answers = []
    for library in (torch, ours):
        with library.inference_mode(), library.enable_grad():
            x = library.ones(2)
        try:
            with getattr(library, switch)():
                answer = USES[name](library, x, library.ones(2, requires_grad=True))
            answers.append(answer.tolist() if hasattr(answer, "tolist") else answer)
        except RuntimeError as error:
            answers.append(str(error)[:50])
    assert answers[0] == answers[1]


def _operations() -> list[Any]:
    """Return PyTorch's operations on float32 that write into none of their arguments."""
    from torch.testing._internal.common_methods_invocations import op_db

    writing = ("native_batch_norm", "nn.functional.instance_norm", "nn.functional.batch_norm", "resize_as_", "zero_")
    return [each for each in op_db if torch.float32 in each.dtypes and each.name not in writing]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_operations_on_tensors_of_inference_mode(every: int) -> None:
    """Nothing of them is saved where nothing needs a gradient."""
    count = 0
    operations = _operations()
    statistics = [each for each in operations if each.name in ("var", "std", "var_mean", "std_mean")]
    for operation in [*statistics, *operations[::every]]:
        function: Any = ours
        for part in operation.name.split("."):
            function = getattr(function, part, None)
        if not callable(function):
            continue
        for sample in itertools.islice(operation.sample_inputs("cpu", torch.float32, requires_grad=False), 2):
            values = [sample.input, *sample.args]
            if sample.kwargs or not all(isinstance(each, int | float) or type(each) is torch.Tensor for each in values):
                continue
            if any(isinstance(each, torch.Tensor) and each.layout is not torch.strided for each in values):
                continue
            with ours.inference_mode():
                given = [ours.tensor(each.numpy()) if isinstance(each, torch.Tensor) else each for each in values]
            try:
                function(*given)
                count += 1
            except (RuntimeError, TypeError, NotImplementedError, AttributeError) as error:
                assert "nference" not in str(error), operation.name
    assert count > 300 // every


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["write", "data", "nothing"]), st.booleans(), st.booleans(), st.booleans())
def test_what_a_function_marks_is_counted_as_written(change: str, tracked: bool, part: bool, saved: bool) -> None:
    answers: list[Any] = []
    for library in (torch, ours):

        class Changing(library.autograd.Function):  # type: ignore[misc,name-defined]
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.mark_dirty(x)
                if change != "nothing":
                    (x if change == "write" else x.data).add_(1)
                return x

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return grad

        leaf = library.ones(3, requires_grad=tracked)
        x = leaf * 2
        product = x * x if saved else x + 1
        view = x[:2] if part else x
        result = Changing.apply(view)
        try:
            if tracked:
                (product.sum() + result.sum()).backward()
            answers.append([x._version, view._version, result.tolist(), leaf.grad is None or leaf.grad.tolist()])
        except RuntimeError as error:
            answers.append([x._version, str(error)[:60]])
    assert answers[0] == answers[1]
