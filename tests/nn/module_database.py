"""PyTorch's database of modules: its samples on both sides, and what is compared."""

from __future__ import annotations

import copy
import dataclasses
import functools
import sys
import types
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "conformance"))

from comparison import nearer, same
from database import ours, resolve, torch
from torch.testing._internal.common_modules import module_db
from translation import Translator, tensors, to_torch

TABLE = {each.name: each for each in module_db}
#: random starting values come from logarithms and roots that differ in the last places
STARTING = (0.0, 3e-7)


class _Recorded:
    """Notes the arguments that modules inside a sample are made with, to make ours alike."""

    def __enter__(self) -> None:
        self.original = torch.nn.TransformerEncoderLayer.__init__
        original = self.original

        def noting(module: Any, *args: Any, **kwargs: Any) -> None:
            original(module, *args, **kwargs)
            module.__dict__["made_with"] = (args, kwargs)

        torch.nn.TransformerEncoderLayer.__init__ = noting

    def __exit__(self, *_: Any) -> None:
        torch.nn.TransformerEncoderLayer.__init__ = self.original


class Arguments(Translator):
    """Translates the arguments of modules: also other modules, functions and options."""

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, torch.nn.Module) and "made_with" in vars(value):
            args, kwargs = vars(value)["made_with"]
            found = getattr(ours.nn, type(value).__name__)(*self(args), **self(kwargs))
            found.load_state_dict(self(dict(value.state_dict())))
            return found
        if isinstance(value, torch.nn.LinearCrossEntropyOptions):
            return ours.nn.LinearCrossEntropyOptions(
                **{name: self(each) for name, each in dataclasses.asdict(value).items()}
            )
        if isinstance(value, types.BuiltinFunctionType | types.FunctionType):
            for place, counterpart in ((torch.nn.functional, ours.nn.functional), (torch, ours)):
                if getattr(place, value.__name__, None) is value:
                    return getattr(counterpart, value.__name__)
        return super()._leaf(value)


@functools.lru_cache(maxsize=4)
def _drawn(name: str, training: bool) -> list[Any]:
    torch.manual_seed(7)
    entry = TABLE[name]
    with _Recorded():
        return entry.module_inputs_func(entry, device="cpu", dtype=torch.float32, requires_grad=True, training=training)


def samples(name: str, training: bool) -> list[Any]:
    """Return PyTorch's samples of a module."""
    if training or TABLE[name].train_and_eval_differ:
        return _drawn(name, training)
    # The modes do the same: of hundreds of samples, a hundred will do in the second.
    found = _drawn(name, True)
    return found[:: 1 + len(found) // 100]


def limits(name: str) -> tuple[float, float]:
    """Return (relative, absolute): what PyTorch's tests of modules allow, for all or for this one where that is more."""
    relative, absolute = 1e-5, 1e-5
    for decoration in TABLE[name].decorators:
        if getattr(decoration, "test_name", None) != "test_forward":
            continue
        for each in decoration.decorators:
            limit = getattr(each, "d", {}).get(torch.float32)
            if limit is not None:
                relative, absolute = max(relative, limit.rtol), max(absolute, limit.atol)
    return relative, absolute


def fresh(value: Any) -> Any:
    """Return a sample's arguments with new leaves for its tensors."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {key: fresh(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(fresh, value))
    return value


class Case:
    """One sample on both sides."""

    def __init__(self, name: str, sample: Any, training: bool, device: str) -> None:
        self.name, self.device = name, device
        self.limits = limits(name)
        given = sample.constructor_input
        torch.manual_seed(11)
        self.theirs = (
            TABLE[name].module_cls(*fresh(given.args), **fresh(given.kwargs)).to(torch.float32).train(training)
        )
        ours.manual_seed(11)
        translate = Arguments("cpu")
        self.module = resolve(name)(*translate(given.args), **translate(given.kwargs)).to(ours.float32).train(training)
        self.input = sample.forward_input

    def arguments(self, device: str) -> tuple[Any, ...]:
        """Return (args, kwargs) of the forward pass, PyTorch's and ours."""
        theirs = fresh(self.input.args), fresh(self.input.kwargs)
        translate = Arguments(device)
        return *theirs, translate(theirs[0]), translate(theirs[1])

    def agree(self, actual: Any, expected: Any, where: str, allowed: tuple[float, float] | None = None) -> None:
        found = same(to_torch(actual), expected, *(allowed or self.limits))
        assert found is None, f"{where}: {found}"

    def check_text_and_state(self) -> None:
        """Compare ``repr``, the state's names, metadata and starting values; load each side's state into the other."""
        assert repr(self.module) == repr(self.theirs)
        if TABLE[self.name].is_lazy:
            self.materialize()
            assert repr(self.module) == repr(self.theirs)
        left, right = self.module.state_dict(), self.theirs.state_dict()
        assert list(left) == list(right)
        assert left._metadata == right._metadata
        assert [key for key, _ in self.module.named_parameters()] == [key for key, _ in self.theirs.named_parameters()]
        self.agree(dict(left), dict(right), "starting values", STARTING)
        translate = Translator("cpu")
        moved = {key: translate(value) for key, value in right.items()}
        assert str(self.module.load_state_dict(moved, strict=True)) == "<All keys matched successfully>"
        self.agree(dict(self.module.state_dict()), dict(right), "loaded values", (0.0, 0.0))
        other = copy.deepcopy(self.theirs)
        assert str(other.load_state_dict(to_torch(dict(self.module.state_dict())))) == "<All keys matched successfully>"
        self.module.to(self.device)

    def materialize(self) -> None:
        """Call a lazy module once, which gives its parameters their shapes and values."""
        args, kwargs, our_args, our_kwargs = self.arguments("cpu")
        with torch.no_grad(), ours.no_grad():
            torch.manual_seed(12)
            self.theirs(*args, **kwargs)
            ours.manual_seed(12)
            self.module(*our_args, **our_kwargs)

    def exact(
        self, state: dict[str, Any], args: Any, kwargs: Any, slopes: list[Any], moved: float = 0.0
    ) -> dict[str, Any]:
        """Return what PyTorch's module gives in float64 from the state before.

        ``moved``: by how much of itself, at most, each number of inputs and state is moved.
        """
        generator = torch.Generator().manual_seed(7)

        def near(value: torch.Tensor) -> torch.Tensor:
            value = value.detach().double()
            return value + value * moved * (2 * torch.rand(value.shape, generator=generator, dtype=value.dtype) - 1)

        def double(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                return near(value).requires_grad_(value.requires_grad)
            if isinstance(value, dict):
                return {key: double(each) for key, each in value.items()}
            return type(value)(map(double, value)) if isinstance(value, list | tuple) else value

        module = copy.deepcopy(self.theirs)
        module.load_state_dict(state)
        module.double()
        with torch.no_grad():
            for each in (*module.parameters(), *module.buffers()):
                if each.is_floating_point():
                    each.copy_(near(each))
        args, kwargs = double(args), double(kwargs)
        return self.with_gradients(module, module(*args, **kwargs), (args, kwargs), torch.Tensor, slopes)

    def judged(self, actual: Any, expected: Any, exact: Any, moved: Any) -> Any:
        """Return what counts as right: float64's result, or ours, where those are as exact as PyTorch's float32 one.

        Sums that cancel leave both libraries' results with errors beyond the limits; ours may then be as far from
        float64's as PyTorch's is, or as float64's own moves where inputs are rounded to float32, but for chance.
        """
        nearest = nearer(actual, expected, exact, *self.limits)
        if not isinstance(expected, torch.Tensor) or not expected.is_floating_point() or actual.shape != expected.shape:
            return nearest
        own, *allowed = ((each - exact).abs().max() if each.numel() else 0.0 for each in (actual, expected, moved))
        return actual if own <= 3 * max(allowed) else nearest

    def check_results(self) -> None:
        """Compare results, gradients and the buffers that the forward pass changes."""
        args, kwargs, our_args, our_kwargs = self.arguments(self.device)
        before = copy.deepcopy(self.theirs.state_dict())
        expected = self.theirs(*args, **kwargs)
        actual = self.module(*our_args, **our_kwargs)
        wanted = self.with_gradients(self.theirs, expected, (args, kwargs), torch.Tensor)
        slopes = wanted.pop("slopes")
        found = self.with_gradients(self.module, actual, (our_args, our_kwargs), ours.Tensor, slopes)
        found = {key: to_torch(each) for key, each in found.items()}
        if any(same(found[key], each, *self.limits) for key, each in wanted.items()):
            exact = self.exact(before, args, kwargs, slopes)
            moved = self.exact(before, args, kwargs, slopes, moved=2**-24)
            wanted = {key: self.judged(found[key], each, exact[key], moved[key]) for key, each in wanted.items()}
        for key, each in wanted.items():
            self.agree(found[key], each, key)

    def with_gradients(self, module: Any, result: Any, given: Any, kind: Any, slopes: Any = None) -> dict[str, Any]:
        """Return result, gradients of inputs and parameters, and buffers; draw the cotangents where there are none."""
        outputs = [each for each in tensors(result, kind) if each.requires_grad]
        drawn = slopes is None
        if drawn:
            generator = torch.Generator().manual_seed(5)
            slopes = [torch.randn(each.shape, generator=generator) for each in outputs]
        assert len(slopes) == len(outputs), "other outputs have gradients"
        leaves = {f"gradient of input {i}": x for i, x in enumerate(tensors(list(given), kind)) if x.requires_grad}
        leaves |= {f"gradient of {name}": each for name, each in module.named_parameters()}
        gradients: Any = [None] * len(leaves)
        if kind is torch.Tensor and outputs:
            cotangents = [slope.to(each.dtype) for slope, each in zip(slopes, outputs, strict=True)]
            gradients = torch.autograd.grad(outputs, list(leaves.values()), cotangents, allow_unused=True)
        elif outputs:
            translate = Translator(self.device)
            gradients = ours.autograd.grad(
                outputs, list(leaves.values()), [translate(slope) for slope in slopes], allow_unused=True
            )
        values = {"result": result} | dict(zip(leaves, gradients, strict=True))
        values |= {f"buffer {name}": each for name, each in module.named_buffers()}
        return values | {"slopes": slopes} if drawn else values
