"""The other ways to call an operation: as a method, an operator, in place, with ``out=`` and by its aliases."""

from __future__ import annotations

import contextlib
import functools
import operator
import types
from collections.abc import Callable
from typing import Any

from comparison import nearer, same
from database import Missing, our_function, ours, rebound, resolve, torch
from gradients import gradient
from samples import SEED, Sample
from ties import same_but_for_ties
from translation import Translator, to_torch

#: samples that the rarer ways of calling are tried with
FEW = 2
VARIANTS = ("method", "operator", "in_place", "out", "alias")
Limits = tuple[float, float]


def our_counterpart(function: Any, entry: Any) -> Callable[..., Any]:
    """Return our function for a variant that the database holds as a method, a lambda or a partial.

    Raises:
        Missing: there is none.
    """
    if isinstance(function, functools.partial):
        return functools.partial(resolve(entry.name), *function.args, **function.keywords)
    if isinstance(function, types.FunctionType) and function.__module__.startswith("torch.testing"):
        return rebound(function)
    name = function.__name__
    if getattr(operator, name.strip("_"), None) is function or getattr(operator, name, None) is function:
        return function
    found = getattr(ours.Tensor, name, None)
    if found is None:
        raise Missing(f"no Tensor.{name}")
    return found


class Variants:
    """Tries one entry's other forms; ``reasons`` has a word per form that exists, empty where all went well."""

    def __init__(self, entry: Any, device: str, limits: Limits) -> None:
        self.entry, self.device, self.limits = entry, device, limits
        self.reasons: dict[str, str] = {}
        self.tried = 0

    def run(self, sample: Sample, expected: Any, random: bool) -> None:
        """Try every form on a sample whose usual result is known."""
        self.tried += 1
        entry = self.entry
        if entry.method_variant is not None:
            self._attempt("method", sample, lambda: self._call(sample, entry.method_variant, expected, random))
        if entry.operator_variant is not None and not sample.sample.kwargs:
            self._attempt("operator", sample, lambda: self._operator(sample, entry.operator_variant))
        if entry.inplace_variant is not None and isinstance(sample.arguments[0], torch.Tensor):
            self._attempt("in_place", sample, lambda: self._in_place(sample, entry.inplace_variant, random))
        if entry.supports_out:
            self._attempt("out", sample, lambda: self._out(sample, expected, random))
        if entry.aliases and self.tried <= FEW:
            self._attempt("alias", sample, lambda: self._alias(sample, expected, random))

    def _attempt(self, form: str, sample: Sample, test: Callable[[], str | None]) -> None:
        if self.reasons.get(form):
            return
        self.reasons.setdefault(form, "")
        try:
            problem = test()
        except Missing as error:
            problem = str(error)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is the result
            problem = f"{type(error).__name__}: {str(error)[:200]}"
        if problem:
            self.reasons[form] = f"{problem} | {sample.describe()}"

    def _differs(self, sample: Sample, found: Any, expected: Any, random: bool) -> str | None:
        """Return how a result differs, by shape and type alone where nothing else is promised."""
        if random:
            return same(_blank(found), _blank(expected), *self.limits)
        problem = same(found, expected, *self.limits)
        if not problem or same_but_for_ties(sample, found, expected):
            return None
        exact = sample.exact()
        if isinstance(found, list) and isinstance(exact, torch.Tensor):
            exact = [exact]
        if exact is not None and same(found, nearer(found, expected, exact, *self.limits), *self.limits) is None:
            return None
        return self._processed(sample, found, expected, problem)

    def _processed(self, sample: Sample, found: Any, expected: Any, problem: str) -> str | None:
        process = sample.sample.output_process_fn_grad
        with contextlib.suppress(Exception):
            want = process(tuple(expected) if isinstance(expected, list) else expected)
            if (
                want is not expected
                and same(process(tuple(found) if isinstance(found, list) else found), want, *self.limits) is None
            ):
                return None
        return problem

    def _call(self, sample: Sample, theirs: Any, expected: Any, random: bool) -> str | None:
        function = our_counterpart(theirs, self.entry)
        return self._differs(sample, to_torch(sample.actual(function)), expected, random)

    def _operator(self, sample: Sample, theirs: Any) -> str | None:
        try:
            expected = theirs(*sample.arguments)
        except Exception:  # noqa: BLE001 - the operator takes fewer arguments than the function
            return None
        return self._differs(sample, to_torch(sample.actual(our_counterpart(theirs, self.entry))), expected, False)

    def _in_place(self, sample: Sample, theirs: Any, random: bool) -> str | None:
        function = our_counterpart(theirs, self.entry)
        sample = sample if self.entry.supports_inplace_autograd else sample.detached()
        target = sample.arguments[0].clone()
        torch.manual_seed(SEED)
        refused: Exception | None = None
        expected = None
        try:
            expected = theirs(target, *sample.arguments[1:], **sample.sample.kwargs)
        except Exception as error:  # noqa: BLE001 - a broadcast input, or a type that the input cannot hold
            refused = error
        own = sample.translate(sample.arguments[0]).clone()
        others, keywords = sample.translate(sample.arguments[1:]), sample.translate(sample.sample.kwargs)
        ours.manual_seed(SEED)
        if refused is not None:
            return _must_refuse(lambda: to_torch(function(own, *others, **keywords)), refused)
        if sample.sample.broadcasts_input:  # PyTorch promises to refuse, and forgets it for addbmm_
            return None
        result = function(own, *others, **keywords)
        if result is not own:
            return "the result is not the input"
        problem = self._differs(sample, to_torch(own), expected, random)
        if problem or random or not self.entry.supports_inplace_autograd or not expected.requires_grad:
            return problem
        return gradient(sample, result, expected, self.limits)[0]

    def _alias(self, sample: Sample, expected: Any, random: bool) -> str | None:
        for each in self.entry.aliases:
            function = resolve(each.name.removeprefix("torch."))
            if function is None:
                return f"no {each.name}"
            problem = self._differs(sample, to_torch(sample.actual(function)), expected, random)
            if problem:
                return f"{each.name}: {problem}"
            for variant in (each.method_variant, each.inplace_variant):
                if variant is not None:
                    our_counterpart(variant, self.entry)
        return None

    def _out(self, sample: Sample, expected: Any, random: bool) -> str | None:
        pieces = list(expected) if isinstance(expected, list | tuple) else [expected]
        if not all(isinstance(each, torch.Tensor) and each.layout is torch.strided for each in pieces):
            return None
        single = isinstance(expected, torch.Tensor)
        for name, make in OUTPUTS.items():
            problem = self._out_form(sample, pieces, single, name, make, random)
            if problem is not None:
                return problem or None
            if self.tried > FEW:
                break
        return None

    def _out_form(
        self, sample: Sample, pieces: list[Any], single: bool, name: str, make: Any, random: bool
    ) -> str | None:
        """Return what goes wrong with one kind of output tensor, "" where PyTorch has no use of ``out=`` for this sample."""
        plain = sample.detached()
        plain.prepare()
        made = [make(each) for each in pieces]
        own = [Translator(self.device)(each) for each in made]
        theirs = made[0] if single else tuple(made)
        refused: Exception | None = None
        torch.manual_seed(SEED)
        try:
            self.entry.op(*plain.arguments, **plain.sample.kwargs, out=theirs)
        except Exception as error:  # noqa: BLE001
            refused = error
        if name == "alike" and (refused is not None or (not random and same(made, pieces, *self.limits))):
            return ""  # PyTorch does not take it, or, as fft.ihfft2, does not fill it
        if name == "strided" and refused is None and not random and same(made, pieces, *self.limits):
            return None  # PyTorch writes over it as if its elements lay side by side: narrow_copy
        target = own[0] if single else tuple(own)
        function = our_function(self.entry)
        if refused is not None:
            problem = _must_refuse(lambda: plain.actual(function, out=target), refused)
            return problem and f"out {name}: {problem}"
        plain.actual(function, out=target)
        problem = self._differs(plain, [to_torch(each) for each in own], made, random)
        strides = [_strides(made), _strides(own)]
        if not problem and name in ("alike", "strided") and strides[0] != strides[1]:
            problem = f"strides {strides[1]} instead of {strides[0]}"
        return problem and f"out {name}: {problem}"


def _strides(values: list[Any]) -> list[tuple[int, ...]]:
    """Return the strides that say where elements are."""
    return [
        tuple(stride for size, stride in zip(each.shape, each.stride(), strict=True) if size > 1)
        for each in values
        if each.numel()
    ]


def _strided(value: Any) -> Any:
    return torch.empty((*value.shape, 2), dtype=value.dtype).fill_(1)[..., 0]


def _other_type(value: Any) -> Any:
    other = torch.int64 if value.dtype.is_floating_point or value.dtype.is_complex else torch.bool
    return torch.ones(value.shape, dtype=other)


#: kinds of output tensors: like the result, in every second place, to be resized (empty or not), of a type that cannot hold it
OUTPUTS: dict[str, Callable[[Any], Any]] = {
    "alike": lambda value: torch.ones_like(value.detach()),
    "strided": _strided,
    "empty": lambda value: torch.empty((0,), dtype=value.dtype),
    "resized": lambda value: torch.ones((value.numel() + 3,), dtype=value.dtype),
    "other type": _other_type,
}


def _must_refuse(call: Callable[[], Any], refused: Exception) -> str | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001
        kind = type(refused)
        return None if isinstance(error, kind) else f"{type(error).__name__} instead of {kind.__name__}: {error}"
    return f"does not refuse: {type(refused).__name__}: {str(refused).splitlines()[0][:120]}"


def _blank(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value.detach())
    if isinstance(value, list | tuple):
        return [_blank(each) for each in value]
    return None
