"""Random numbers inside of ``torch.vmap``: the same ones for all examples, or each example's own."""

from __future__ import annotations

import contextlib
from typing import Any, NoReturn, TypeAlias

from ..autograd.checkpoint import RandomState
from ..dispatch.numpy_names import parameter_names
from ..dispatch.overrides import PATHS, DisableTorchFunctionSubclass, TorchFunctionMode
from ..dispatch.registry import OPERATIONS
from ..tensors.pytree import tree_leaves
from ..tensors.tensor import Tensor
from .batching import (
    RANDOM_REFUSED,
    batch_size,
    batched,
    example_of,
    held,
    is_batched,
    is_in_place,
    level_of,
    one_by_one,
    randomness,
    rewrap,
)
from .rules import aligned, rule

Value: TypeAlias = Any

_LIKE = ("rand_like", "randn_like", "randint_like")
#: what draws a number for each element of its operands, or writes one there
_OF_ELEMENTS = (
    *_LIKE, "bernoulli", "bernoulli_", "normal_", "uniform_", "exponential_", "cauchy_", "geometric_", "log_normal_", "random_",
    "poisson", "normal", "binomial", "_standard_gamma", "dropout",
)  # fmt: skip
_DROPPING = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
_DRAWN = (
    *_OF_ELEMENTS, *_DROPPING[1:], "multinomial", "rrelu", "rrelu_", "gumbel_softmax", "fractional_max_pool2d",
    "fractional_max_pool3d", "_sample_dirichlet",
)  # fmt: skip
#: what makes tensors, by the place of their size among the arguments
_MADE = {"rand": 0, "randn": 0, "randint": -1, "normal": 2, "randperm": None}
_HOMES = ("torch", "torch.Tensor", "torch.nn.functional")


@rule(*_DRAWN)
def random_numbers(func: Value, level: int, args: Value, kwargs: Value) -> Value:
    given = dict(zip(parameter_names(func), args)) | kwargs
    name = func.__name__
    if "dropout" in name and (not given.get("training", True) or given.get("p", 0.5) == 0):
        return args[0]
    if randomness(level) == "error":
        raise RuntimeError(RANDOM_REFUSED)
    return (_different if randomness(level) == "different" else _same)(func, level, args, kwargs)


def _different(func: Value, level: int, args: Value, kwargs: Value) -> Value:
    """Draw numbers of its own for each example."""
    name = func.__name__
    if is_in_place(func) and not is_batched(args[0], level):
        # Says so where another operand is batched.
        return aligned(func, level, args, kwargs) if level_of(args, kwargs) == level else _refuse_shared()
    if name in _OF_ELEMENTS:
        return aligned(func, level, args, kwargs)
    if name == "_sample_dirichlet":
        return rewrap(func(*held(args, level), **held(kwargs, level)), level)
    if name == "multinomial" and args[0].dim() == 2:
        whole = args[0].batch
        drawn = func(whole.flatten(0, 1), *args[1:], **kwargs)
        return batched(drawn.unflatten(0, tuple(whole.shape[:2])), level)
    if name == "multinomial":
        return batched(func(args[0].batch, *args[1:], **kwargs), level)
    return one_by_one(func, level, args, kwargs)


def _same(func: Value, level: int, args: Value, kwargs: Value) -> Value:
    """Draw the same numbers for all examples."""
    name = func.__name__
    if name in _LIKE:
        with DisableTorchFunctionSubclass():
            return func(args[0].batch.select(0, 0), *args[1:], **kwargs)
    if is_in_place(func) and name in _OF_ELEMENTS and level_of(args[1:], kwargs) < level:
        whole = args[0].batch
        whole.copy_(func(whole.select(0, 0).clone(), *args[1:], **kwargs).expand(whole.shape))
        return args[0]
    if name in _DROPPING:
        random = RandomState([args[0].batch])
        results = []
        for index in range(batch_size(level)):
            is_last = index + 1 == batch_size(level)
            with contextlib.nullcontext() if is_last else random.again():
                results.append(func(*example_of(args, level, index), **example_of(kwargs, level, index)))
        return batched(OPERATIONS["stack"].function(results), level)
    raise RuntimeError(
        "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with functorch"
    )


def _refuse_shared() -> NoReturn:
    raise RuntimeError(
        "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. If this is "
        "necessary for your usage, please file an issue with functorch."
    )


class RandomRegion(TorchFunctionMode):
    """Sees the calls that draw numbers for what all examples share, or of nothing: no argument tells that they are inside of ``vmap``."""

    def __init__(self, level: int) -> None:
        self.level = level

    def __torch_function__(self, func: Value, types: Value, args: Value = (), kwargs: Value = None) -> Value:
        """Answer a call."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        draws = (name in _DRAWN or name in _MADE) and PATHS.get(func, "").rpartition(".")[0] in _HOMES
        if not draws or level_of(args, kwargs) >= self.level:
            return func(*args, **kwargs)
        if kwargs.get("out") is not None:
            raise RuntimeError(
                f"vmap: We do not support calling out variants of random operations inside of vmap ({name})"
            )
        if name in ("rrelu", "rrelu_"):
            raise RuntimeError(
                "vmap: We do not yet support calling random operations inside of vmap: rrelu has no rule"
            )
        if randomness(self.level) == "same":
            return func(*args, **kwargs)
        if any(isinstance(each, Tensor) for each in tree_leaves((args, kwargs))):
            if is_in_place(func):
                _refuse_shared()
            count = batch_size(self.level)
            first = next(place for place, each in enumerate(args) if isinstance(each, Tensor))
            whole = args[first].unsqueeze(0).expand(count, *args[first].shape)
            return random_numbers(
                func, self.level, (*args[:first], batched(whole, self.level), *args[first + 1 :]), kwargs
            )
        return batched(self._made(func, args, kwargs), self.level)

    def _made(self, func: Value, args: Value, kwargs: Value) -> Tensor:
        """Return a batch of tensors ``[examples, ...]`` that a function makes."""
        count, place = batch_size(self.level), _MADE[func.__name__]
        if place is None:
            return OPERATIONS["stack"].function([func(*args, **kwargs) for _ in range(count)])
        if "size" in kwargs:
            return func(*args, **{**kwargs, "size": (count, *kwargs["size"])})
        if place == 0:
            size = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
            return func((count, *size), **kwargs)
        rest, size = list(args), args[place]
        rest[place] = (count, *size)
        return func(*rest, **kwargs)
