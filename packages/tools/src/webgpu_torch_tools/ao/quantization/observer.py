"""Observers: modules that let tensors pass and keep what a scale and a zero point are computed of."""

from __future__ import annotations

import warnings

import webgpu_torch_core as torch
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Module

from .._calibration import histograms, ranges
from ._observing import _EPS, Parameters
from ._observing import ObserverBase as ObserverBase
from ._observing import UniformQuantizationObserverBase as UniformQuantizationObserverBase
from ._observing import _ObserverBase as _ObserverBase
from ._observing import _PartialWrapper as _PartialWrapper
from ._observing import _with_args as _with_args
from ._observing import _with_callable_args as _with_callable_args
from ._simple_observers import FixedQParamsObserver as FixedQParamsObserver
from ._simple_observers import NoopObserver as NoopObserver
from ._simple_observers import PlaceholderObserver as PlaceholderObserver
from ._simple_observers import RecordingObserver as RecordingObserver
from ._simple_observers import ReuseInputObserver as ReuseInputObserver
from .utils import check_min_max_valid, is_per_tensor, is_symmetric


class _RangeObserver(UniformQuantizationObserverBase):
    """Keeps a least and a greatest number: of all tensors, or for each position of a dimension."""

    min_val: Tensor
    max_val: Tensor

    def _keep(self, low: Tensor, high: Tensor) -> None:
        self.min_val.copy_(torch.minimum(low, self.min_val))
        self.max_val.copy_(torch.maximum(high, self.max_val))

    def calculate_qparams(self) -> Parameters:
        """Return the scales ``[n]`` and the zero points ``[n]``: one of each, or one for each position."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """Return what the text of the module says."""
        return f"min_val={self.min_val}, max_val={self.max_val}"


class MinMaxObserver(_RangeObserver):
    """Keeps the least and the greatest number of all tensors.

    Args:
        dtype, qscheme, reduce_range, quant_min, quant_max, eps, is_dynamic: as :class:`UniformQuantizationObserverBase` has them.

    Raises:
        NotImplementedError: a scheme with several scales.
    """

    def __init__(
        self, dtype: torch.dtype = torch.quint8, qscheme: torch.qscheme = torch.per_tensor_affine, reduce_range: bool = False,
        quant_min: int | None = None, quant_max: int | None = None, factory_kwargs: dict[str, Answer] | None = None,
        eps: float = _EPS, is_dynamic: bool = False, **kwargs: object,
    ) -> None:  # fmt: skip
        if not is_per_tensor(qscheme):
            raise NotImplementedError(
                f"{type(self).__name__}'s qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine."
            )
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.register_buffer("min_val", torch.tensor(float("inf"), **(factory_kwargs or {})))
        self.register_buffer("max_val", torch.tensor(float("-inf"), **(factory_kwargs or {})))
        if is_symmetric(qscheme) and reduce_range and dtype is torch.quint8:
            raise NotImplementedError("Cannot reduce range for symmetric quantization for quint8")

    def forward(self, x_orig: Tensor) -> Tensor:
        """Return a tensor of any shape as it is, after a look at its least and greatest number."""
        if x_orig.numel():
            low, high = x_orig.detach().to(self.min_val.dtype).aminmax()
            self._keep(low, high)
        return x_orig

    def reset_min_max_vals(self) -> None:
        """Forget what was observed."""
        self.min_val.copy_(torch.tensor(float("inf")))
        self.max_val.copy_(torch.tensor(float("-inf")))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Keeps averages of the least and the greatest number, to which a tensor adds a share.

    Args:
        averaging_constant: the share.
        dtype, qscheme, reduce_range, quant_min, quant_max, eps, is_dynamic: as :class:`UniformQuantizationObserverBase` has them.

    Raises:
        NotImplementedError: a scheme with several scales.
    """

    def __init__(
        self, averaging_constant: float = 0.01, dtype: torch.dtype = torch.quint8, qscheme: torch.qscheme = torch.per_tensor_affine,
        reduce_range: bool = False, quant_min: int | None = None, quant_max: int | None = None, eps: float = _EPS,
        is_dynamic: bool = False, **kwargs: Answer,
    ) -> None:  # fmt: skip
        self.averaging_constant = averaging_constant
        if is_dynamic and averaging_constant != 1:
            raise NotImplementedError("MovingAverageMinMaxObserver doesn't support dynamic quantization for averaging constants other than 1")  # fmt: skip
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs)

    def _keep(self, low: Tensor, high: Tensor) -> None:
        ranges.average_into(self.min_val, self.max_val, low, high, self.averaging_constant)


class PerChannelMinMaxObserver(_RangeObserver):
    """Keeps the least and the greatest number for each position of a dimension.

    Args:
        ch_axis: the dimension.
        dtype, qscheme, reduce_range, quant_min, quant_max, eps, is_dynamic: as :class:`UniformQuantizationObserverBase` has them.

    Raises:
        NotImplementedError: a scheme with one scale, or dynamic quantisation.
    """

    def __init__(
        self, ch_axis: int = 0, dtype: torch.dtype = torch.quint8, qscheme: torch.qscheme = torch.per_channel_affine,
        reduce_range: bool = False, quant_min: int | None = None, quant_max: int | None = None,
        factory_kwargs: dict[str, Answer] | None = None, eps: float = _EPS, is_dynamic: bool = False, **kwargs: object,
    ) -> None:  # fmt: skip
        if is_per_tensor(qscheme):
            raise NotImplementedError(
                "PerChannelMinMaxObserver's qscheme only support torch.per_channel_symmetric, torch.per_channel_affine and "
                "torch.per_channel_affine_float_qparams."
            )
        if is_dynamic:
            raise NotImplementedError("PerChannelMinMaxObserver doesn't support dynamic quantization")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.ch_axis = ch_axis
        self.register_buffer("min_val", torch.tensor([], **(factory_kwargs or {})))
        self.register_buffer("max_val", torch.tensor([], **(factory_kwargs or {})))
        if qscheme is torch.per_channel_symmetric and reduce_range and dtype is torch.quint8:
            raise NotImplementedError("Cannot reduce range for symmetric quantization for quint8")

    def forward(self, x_orig: Tensor) -> Tensor:
        """Return a tensor of any shape as it is, after a look at the numbers at each position of the dimension."""
        if x_orig.numel():
            lines = x_orig.detach().to(self.min_val.dtype).movedim(self.ch_axis, 0).flatten(1)
            low, high = lines.aminmax(dim=1)
            if self.min_val.numel() == 0 or self.max_val.numel() == 0:
                self.min_val.resize_(low.shape).copy_(low)
                self.max_val.resize_(high.shape).copy_(high)
            else:
                self._keep(low, high)
        return x_orig

    def _load_from_state_dict(self, state_dict: dict[str, Answer], prefix: str, *rest: Answer) -> None:
        # How many positions there are is told by what is loaded.
        for name, kept in (("min_val", self.min_val), ("max_val", self.max_val)):
            given = state_dict.get(prefix + name)
            if given is not None:
                kept.resize_(given.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def reset_min_max_vals(self) -> None:
        """Forget what was observed."""
        self.min_val.resize_(0)
        self.max_val.resize_(0)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Keeps averages of the least and the greatest number for each position of a dimension.

    Args:
        averaging_constant: the share that a tensor adds.
        ch_axis: the dimension.
        dtype, qscheme, reduce_range, quant_min, quant_max, eps, is_dynamic: as :class:`UniformQuantizationObserverBase` has them.

    Raises:
        NotImplementedError: a scheme with one scale, or dynamic quantisation.
    """

    def __init__(
        self, averaging_constant: float = 0.01, ch_axis: int = 0, dtype: torch.dtype = torch.quint8,
        qscheme: torch.qscheme = torch.per_channel_affine, reduce_range: bool = False, quant_min: int | None = None,
        quant_max: int | None = None, eps: float = _EPS, is_dynamic: bool = False, **kwargs: Answer,
    ) -> None:  # fmt: skip
        super().__init__(
            ch_axis, dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **kwargs
        )
        self.averaging_constant = averaging_constant

    def _keep(self, low: Tensor, high: Tensor) -> None:
        ranges.average_into(self.min_val, self.max_val, low, high, self.averaging_constant)


class HistogramObserver(UniformQuantizationObserverBase):
    """Keeps how often numbers occur, and chooses the range in which quantising them loses least.

    Args:
        bins: into how many parts the range is divided.
        dtype, qscheme, reduce_range, quant_min, quant_max, eps, is_dynamic: as :class:`UniformQuantizationObserverBase` has them.

    Raises:
        NotImplementedError: a scheme with several scales, or dynamic quantisation.
    """

    histogram: Tensor
    min_val: Tensor
    max_val: Tensor

    def __init__(
        self, bins: int = 2048, dtype: torch.dtype = torch.quint8, qscheme: torch.qscheme = torch.per_tensor_affine,
        reduce_range: bool = False, quant_min: int | None = None, quant_max: int | None = None,
        factory_kwargs: dict[str, Answer] | None = None, eps: float = _EPS, is_dynamic: bool = False, **kwargs: object,
    ) -> None:  # fmt: skip
        if not is_per_tensor(qscheme):
            raise NotImplementedError("HistogramObserver's qscheme only support torch.per_tensor_symmetric and torch.per_tensor_affine.")  # fmt: skip
        if is_dynamic:
            raise NotImplementedError("HistogramObserver doesn't support dynamic quantization")
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps, is_dynamic, **kwargs)
        self.bins = bins
        named = factory_kwargs or {}
        self.register_buffer("histogram", torch.zeros(bins, **named))
        self.register_buffer("min_val", torch.tensor(float("inf"), **named))
        self.register_buffer("max_val", torch.tensor(float("-inf"), **named))
        self.dst_nbins = 2 ** (dtype.itemsize * 8)

    def forward(self, x_orig: Tensor) -> Tensor:
        """Return a tensor of any shape as it is, after its numbers are counted."""
        x = x_orig.detach()
        if bool(x.isinf().any()):
            warnings.warn("torch.inf detected in input tensor, ignoring input", stacklevel=2)
            x = x[~x.isinf()]
        if x.numel():
            kept = (self.histogram, self.min_val.item(), self.max_val.item())
            counts, low, high = histograms.counted(x.to(torch.float32), kept, self.bins)
            self.histogram.resize_(counts.shape).copy_(counts)
            self.min_val.fill_(low)
            self.max_val.fill_(high)
        return x_orig

    def calculate_qparams(self) -> Parameters:
        """Return the scale ``[1]`` and the zero point ``[1]``.

        Raises:
            AssertionError: there are not as many counts as parts.
        """
        if not check_min_max_valid(self.min_val, self.max_val):
            return self._calculate_qparams(self.min_val, self.max_val)
        if self.bins != len(self.histogram):
            raise AssertionError("The number of bins in histogram should be equal to the number of bins supplied while making this observer")  # fmt: skip
        low, high = histograms.best_range(self.histogram, self.min_val, self.max_val, self.dst_nbins)
        return self._calculate_qparams(low, high)

    def extra_repr(self) -> str:
        """Return what the text of the module says."""
        return f"min_val={self.min_val}, max_val={self.max_val}"


def get_observer_state_dict(mod: Module) -> dict[str, Tensor]:
    """Return what the observers in a module keep, by its names in the module's state; tensors ``[]`` or ``[n]``."""
    found = mod.state_dict()
    kept = type(found)((key, value) for key, value in found.items() if "activation_post_process" in key)
    kept._metadata = {key: each for key, each in found._metadata.items() if "activation_post_process" in key}  # type: ignore[attr-defined]
    return kept


def load_observer_state_dict(mod: Module, obs_dict: dict[str, Tensor]) -> None:
    """Give the observers in a module what :func:`get_observer_state_dict` returned.

    Raises:
        RuntimeError: it has what the module has no observers for.
    """
    _, unexpected = mod.load_state_dict(obs_dict, strict=False)
    if unexpected:
        raise RuntimeError(f"Unexpected keys for state_dict: {unexpected}")


for _each in (
    ObserverBase, UniformQuantizationObserverBase, FixedQParamsObserver, NoopObserver, PlaceholderObserver, RecordingObserver,
    ReuseInputObserver,
):  # fmt: skip
    # Files look for them where PyTorch has them.
    _each.__module__ = __name__

default_observer = MinMaxObserver.with_args(quant_min=0, quant_max=127)
default_placeholder_observer = PlaceholderObserver
default_debug_observer = RecordingObserver
default_reuse_input_observer = ReuseInputObserver
default_weight_observer = MinMaxObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric)
default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
default_per_channel_weight_observer = PerChannelMinMaxObserver.with_args(
    dtype=torch.qint8, qscheme=torch.per_channel_symmetric
)
_NARROW = {"quant_min": -127, "quant_max": 127, "eps": 2**-12}
weight_observer_range_neg_127_to_127 = MinMaxObserver.with_args(
    dtype=torch.qint8, qscheme=torch.per_tensor_symmetric, **_NARROW
)
per_channel_weight_observer_range_neg_127_to_127 = PerChannelMinMaxObserver.with_args(
    dtype=torch.qint8, qscheme=torch.per_channel_symmetric, **_NARROW
)
default_dynamic_quant_observer = PlaceholderObserver.with_args(
    dtype=torch.quint8, quant_min=0, quant_max=255, is_dynamic=True
)
default_float_qparams_observer = PerChannelMinMaxObserver.with_args(
    dtype=torch.quint8, qscheme=torch.per_channel_affine_float_qparams, ch_axis=0
)
default_fixed_qparams_range_neg1to1_observer = FixedQParamsObserver.with_args(
    scale=2.0 / 256.0, zero_point=128, dtype=torch.quint8, quant_min=0, quant_max=255
)
default_fixed_qparams_range_0to1_observer = FixedQParamsObserver.with_args(
    scale=1.0 / 256.0, zero_point=0, dtype=torch.quint8, quant_min=0, quant_max=255
)
default_symmetric_fixed_qparams_observer = default_fixed_qparams_range_neg1to1_observer
default_affine_fixed_qparams_observer = default_fixed_qparams_range_0to1_observer
