"""What observers have in common: that they are modules, and how bounds become a scale and a zero point."""

from __future__ import annotations

import functools
import warnings
from abc import ABCMeta, abstractmethod
from collections.abc import Callable
from typing import TypeAlias

import webgpu_torch_core as torch
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Module

from .._calibration import ranges
from .utils import calculate_qmin_qmax, check_min_max_valid

Parameters: TypeAlias = tuple[Tensor, Tensor]
_EPS = torch.finfo(torch.float32).eps


class _PartialWrapper:
    """A class with some of its arguments, to be called for the rest; others can be added."""

    def __init__(self, p: functools.partial[Answer]) -> None:
        self.p = p
        self.callable_args: dict[str, Callable[[], object]] = {}

    def __call__(self, *args: object, **keywords: object) -> Answer:
        later = {name: make() for name, make in self.callable_args.items() if name not in keywords}
        return self.p(*args, **{**keywords, **later})

    def __repr__(self) -> str:
        return repr(self.p) + repr(self.callable_args)

    def with_args(self, **kwargs: object) -> _PartialWrapper:
        """Return this with more arguments."""
        return _with_args(self, **kwargs)

    def with_callable_args(self, **kwargs: Callable[[], object]) -> _PartialWrapper:
        """Return this with arguments that are computed at each call."""
        result = _PartialWrapper(functools.partial(self))
        result.callable_args = {**self.callable_args, **kwargs}
        return result


def _with_args(cls_or_self: Answer, **kwargs: object) -> _PartialWrapper:
    known = cls_or_self.callable_args if isinstance(cls_or_self, _PartialWrapper) else {}
    inner = cls_or_self.p if isinstance(cls_or_self, _PartialWrapper) else cls_or_self
    result = _PartialWrapper(functools.partial(inner, **kwargs))
    result.callable_args = dict(known)
    return result


def _with_callable_args(cls_or_self: Answer, **kwargs: Callable[[], object]) -> _PartialWrapper:
    return _PartialWrapper(functools.partial(cls_or_self)).with_callable_args(**kwargs)


class ObserverBase(Module, metaclass=ABCMeta):
    """What all observers are: modules that return what they are given.

    Args:
        dtype: the type of the integers that a scale is wanted for.
        is_dynamic: whether scales are computed anew for each tensor.
    """

    def __init__(self, dtype: torch.dtype, is_dynamic: bool = False) -> None:
        super().__init__()
        self.dtype, self.is_dynamic = dtype, is_dynamic

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of any shape as it is, after a look at it."""

    @abstractmethod
    def calculate_qparams(self) -> Parameters:
        """Return the scale and the zero point."""

    with_args = classmethod(_with_args)
    with_callable_args = classmethod(_with_callable_args)


class UniformQuantizationObserverBase(ObserverBase):
    """Observers of the least and the greatest number, between which integers are evenly spread.

    Args:
        dtype: the type of the integers.
        qscheme: one scale or several, with zero in the middle or not.
        reduce_range: leave the highest bit unused.
        quant_min, quant_max: the integers' range, the type's by default.
        eps: the least scale.
        is_dynamic: whether scales are computed anew for each tensor.

    Raises:
        NotImplementedError: another scheme.
        AssertionError: a range that does not hold zero, or another type.
    """

    _version = 3
    eps: Tensor

    def __init__(
        self, dtype: torch.dtype = torch.quint8, qscheme: torch.qscheme = torch.per_tensor_affine, reduce_range: bool = False,
        quant_min: int | None = None, quant_max: int | None = None, factory_kwargs: dict[str, Answer] | None = None,
        eps: float = _EPS, is_dynamic: bool = False, **kwargs: object,
    ) -> None:  # fmt: skip
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.qscheme = qscheme
        if reduce_range:
            warnings.warn(
                "Please use quant_min and quant_max to specify the range for observers. reduce_range will be deprecated in a "
                "future release of PyTorch.", stacklevel=2,
            )  # fmt: skip
        self.reduce_range = reduce_range
        self.register_buffer("eps", torch.tensor([eps], **(factory_kwargs or {})))
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if self.has_customized_qrange:
            self._validate_qmin_qmax(quant_min, quant_max)
        self.quant_min, self.quant_max = calculate_qmin_qmax(
            quant_min, quant_max, self.has_customized_qrange, dtype, reduce_range
        )

    def _validate_qmin_qmax(self, quant_min: Answer, quant_max: Answer) -> None:
        if not quant_min <= 0 <= quant_max:
            raise AssertionError("Used-specified quantization range must include 0.")
        if not quant_min < quant_max:
            raise AssertionError("qmin must be strictly less than qmax for user-specified quantization range.")

    def _calculate_qparams(self, min_val: Tensor, max_val: Tensor) -> Parameters:
        if not check_min_max_valid(min_val, max_val):
            warnings.warn("must run observer before calling calculate_qparams. Returning default values.", stacklevel=2)
            return torch.tensor([1.0], device=min_val.device), torch.tensor([0], device=min_val.device)
        middle = (self.quant_min + self.quant_max) // 2 if self.has_customized_qrange else 128
        return ranges.parameters(
            min_val, max_val, self.quant_min, self.quant_max, self.eps, self.qscheme,
            middle if self.dtype in (torch.quint8, torch.uint8) else 0,
        )  # fmt: skip

    def _load_from_state_dict(
        self, state_dict: dict[str, Answer], prefix: str, local_metadata: dict[str, Answer], *rest: Answer
    ) -> None:
        if (local_metadata.get("version") or 1) < 2:
            # Older files have no least scale.
            state_dict[prefix + "eps"] = torch.tensor([_EPS])
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def reset_min_max_vals(self) -> None:
        """Forget what was observed.

        Raises:
            NotImplementedError: this observer cannot.
        """
        raise NotImplementedError("Cannot reset min/max values in the given observer.")


_ObserverBase = UniformQuantizationObserverBase
