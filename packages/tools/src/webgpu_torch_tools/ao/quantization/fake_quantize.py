"""Modules that round numbers as quantising and dequantising would, for training with it, and observe them before."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable

import webgpu_torch_core as torch
from webgpu_torch._holding import Answer
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Module

from ..._quantized.choosing import covering
from .observer import (
    FixedQParamsObserver,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    _with_args,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)
from .utils import is_per_channel, is_per_tensor, is_symmetric


class FakeQuantizeBase(Module, metaclass=ABCMeta):
    """What rounds numbers as integers would, and can be switched: its rounding and its observer."""

    fake_quant_enabled: Tensor
    observer_enabled: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("fake_quant_enabled", torch.tensor([1], dtype=torch.uint8))
        self.register_buffer("observer_enabled", torch.tensor([1], dtype=torch.uint8))

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of any shape, rounded."""

    @abstractmethod
    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return the scale and the zero point."""

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Round from now on, or let tensors pass."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self) -> None:
        """Let tensors pass from now on."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        """Observe tensors from now on, or no longer."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self) -> None:
        """Observe no tensors from now on."""
        self.enable_observer(False)

    @classmethod
    def with_args(cls, **kwargs: object) -> Answer:
        """Return the class with some of its arguments; modules that it makes are on the device of those they are put into."""
        return _with_args(cls, **kwargs)


class FakeQuantize(FakeQuantizeBase):
    """Rounds numbers with the scale and the zero point that an observer computes of them.

    Args:
        observer: its class.
        quant_min, quant_max: the integers' range, the observer's by default.
        is_dynamic: whether scales are computed anew for each tensor.
        observer_kwargs: arguments of the observer.

    Raises:
        AssertionError: the range is none of the observer's type.
    """

    scale: Tensor
    zero_point: Tensor

    def __init__(
        self, observer: Callable[..., Answer] = MovingAverageMinMaxObserver, quant_min: int | None = None,
        quant_max: int | None = None, is_dynamic: bool = False, **observer_kwargs: Answer,
    ) -> None:  # fmt: skip
        super().__init__()
        if quant_min is not None and quant_max is not None:
            if quant_min > quant_max:
                raise AssertionError("quant_min must be less than or equal to quant_max")
            kind = observer_kwargs.get("dtype", torch.quint8)
            if not kind.minimum <= quant_min or not quant_max <= kind.maximum:
                raise AssertionError("quant_min and quant_max out of bound")
            observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        observer_kwargs["is_dynamic"] = is_dynamic
        self.activation_post_process: Answer = observer(**observer_kwargs)
        watched = self.activation_post_process
        self.quant_min, self.quant_max, self.is_dynamic = watched.quant_min, watched.quant_max, is_dynamic
        floating = watched.qscheme is torch.per_channel_affine_float_qparams
        self.register_buffer("scale", torch.tensor([1.0], dtype=torch.float32))
        self.register_buffer("zero_point", torch.tensor([0], dtype=torch.float32 if floating else torch.int32))
        self.dtype, self.qscheme = watched.dtype, watched.qscheme
        self.ch_axis: int = getattr(watched, "ch_axis", -1)
        if not (is_per_channel(self.qscheme) or is_per_tensor(self.qscheme)):
            raise AssertionError("Only per channel and per tensor quantization are supported in fake quantize")
        self.is_per_channel = is_per_channel(self.qscheme)

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return the observer's scale and zero point, ``[1]`` or ``[n]``."""
        return self.activation_post_process.calculate_qparams()

    def _seen(self) -> tuple[Tensor, Tensor]:
        return self.calculate_qparams()

    def forward(self, X: Tensor) -> Tensor:
        """Return a tensor of any shape, observed and rounded."""
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, zero_point = self._seen()
            for kept, found in ((self.scale, scale), (self.zero_point, zero_point)):
                if kept.shape != found.shape:
                    kept.resize_(found.shape)
                kept.copy_(found)
        if self.fake_quant_enabled[0] != 1:
            return X
        if self.is_per_channel:
            return torch.fake_quantize_per_channel_affine(
                X, self.scale, self.zero_point, self.ch_axis, self.quant_min, self.quant_max
            )
        return torch.fake_quantize_per_tensor_affine(X, self.scale, self.zero_point, self.quant_min, self.quant_max)

    def extra_repr(self) -> str:
        """Return what the text of the module says."""
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, quant_min={self.quant_min}, "
            f"quant_max={self.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, ch_axis={self.ch_axis}, scale={self.scale}, "
            f"zero_point={self.zero_point}"
        )

    def _load_from_state_dict(self, state_dict: dict[str, Answer], prefix: str, *rest: Answer) -> None:
        # How many scales there are is told by what is loaded.
        for name, kept in (("scale", self.scale), ("zero_point", self.zero_point)):
            given = state_dict.get(prefix + name)
            if given is not None:
                kept.resize_(given.shape)
        super()._load_from_state_dict(state_dict, prefix, *rest)


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds numbers with a scale and a zero point that are known beforehand.

    Args:
        observer: a :class:`FixedQParamsObserver` with its arguments.

    Raises:
        AssertionError: another observer.
    """

    def __init__(self, observer: Callable[..., Answer]) -> None:
        super().__init__(observer=observer)
        if type(self.activation_post_process) is not FixedQParamsObserver:
            raise AssertionError(f"{type(self).__name__}'s observer must be a FixedQParamsObserver")
        self._observer_ctr = observer
        self.scale = self.activation_post_process.scale
        self.zero_point = self.activation_post_process.zero_point

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Return the scale ``[1]`` and the zero point ``[1]``."""
        return self.scale, self.zero_point

    def extra_repr(self) -> str:
        """Return what the text of the module says."""
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, scale={self.scale}, "
            f"zero_point={self.zero_point}, dtype={self.dtype}, quant_min={self.quant_min}, quant_max={self.quant_max}, "
            f"qscheme={self.qscheme}"
        )


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """Rounds numbers with the scale of their averaged bounds.

    Args:
        observer: a class of observers of averaged bounds.
        quant_min, quant_max: the integers' range.
        observer_kwargs: arguments of the observer.

    Raises:
        AssertionError: an observer of no averages.
    """

    def __init__(
        self, observer: Callable[..., Answer] = MovingAverageMinMaxObserver, quant_min: int = 0, quant_max: int = 255,
        **observer_kwargs: Answer,
    ) -> None:  # fmt: skip
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        known = (MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver)
        if not isinstance(self.activation_post_process, known):
            raise AssertionError("Fused observer+fake_quant module only works with MovingAverageMinMaxObserver")
        self.register_buffer("fake_quant_enabled", torch.tensor([1], dtype=torch.long))
        self.register_buffer("observer_enabled", torch.tensor([1], dtype=torch.long))
        self.is_symmetric_quant = is_symmetric(self.qscheme)

    def _seen(self) -> tuple[Tensor, Tensor]:
        """Return the scale and zero point of the bounds so far, as PyTorch's fused kernel chooses them: ``[1]`` or ``[n]``."""
        watched = self.activation_post_process
        bounds = zip(watched.min_val.reshape(-1).tolist(), watched.max_val.reshape(-1).tolist(), strict=True)
        found = [covering(*each, self.quant_min, self.quant_max, self.is_symmetric_quant) for each in bounds]
        device = watched.min_val.device
        scales = torch.tensor([each.scale for each in found], device=device)
        return scales, torch.tensor([each.zero_point for each in found], dtype=torch.int32, device=device)

    def extra_repr(self) -> str:
        """Return what the text of the module says."""
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, observer_enabled={self.observer_enabled}, scale={self.scale}, "
            f"zero_point={self.zero_point}, dtype={self.dtype}, quant_min={self.activation_post_process.quant_min}, "
            f"quant_max={self.activation_post_process.quant_max}, qscheme={self.qscheme}, "
            f"reduce_range={self.activation_post_process.reduce_range}"
        )


def _switch(mod: object, name: str) -> None:
    if isinstance(mod, FakeQuantizeBase):
        getattr(mod, name)()


def disable_fake_quant(mod: Module) -> None:
    """Let tensors pass from now on; for ``model.apply``."""
    _switch(mod, "disable_fake_quant")


def enable_fake_quant(mod: Module) -> None:
    """Round from now on; for ``model.apply``."""
    _switch(mod, "enable_fake_quant")


def disable_observer(mod: Module) -> None:
    """Observe no tensors from now on; for ``model.apply``."""
    _switch(mod, "disable_observer")


def enable_observer(mod: Module) -> None:
    """Observe tensors from now on; for ``model.apply``."""
    _switch(mod, "enable_observer")


_BYTE = {"quant_min": 0, "quant_max": 255, "dtype": torch.quint8}
_WEIGHT = {"quant_min": -128, "quant_max": 127, "dtype": torch.qint8}
_NARROW = {"quant_min": -127, "quant_max": 127, "dtype": torch.qint8}
_ONE, _MANY = {"observer": MovingAverageMinMaxObserver}, {"observer": MovingAveragePerChannelMinMaxObserver}
_OF_ONE, _OF_MANY = {"qscheme": torch.per_tensor_symmetric}, {"qscheme": torch.per_channel_symmetric}
default_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, **_BYTE, qscheme=torch.per_tensor_affine, reduce_range=True
)
default_weight_fake_quant = FakeQuantize.with_args(**_ONE, **_WEIGHT, **_OF_ONE, reduce_range=False)
default_dynamic_fake_quant = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, **_BYTE, is_dynamic=True, averaging_constant=1
)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = default_fixed_qparams_range_neg1to1_fake_quant
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    **_MANY, **_WEIGHT, **_OF_MANY, reduce_range=False, ch_axis=0
)
default_embedding_fake_quant = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, qscheme=torch.per_channel_affine_float_qparams, **_BYTE, ch_axis=0,
    averaging_constant=1,
)  # fmt: skip
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=HistogramObserver, **_BYTE, qscheme=torch.per_tensor_affine, reduce_range=True
)
default_fused_act_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(observer=MovingAverageMinMaxObserver, **_BYTE)
default_fused_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(**_ONE, **_WEIGHT, **_OF_ONE)
default_fused_per_channel_wt_fake_quant = FusedMovingAvgObsFakeQuantize.with_args(**_MANY, **_WEIGHT, **_OF_MANY)
fused_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    **_ONE, **_NARROW, **_OF_ONE, eps=2**-12
)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = FusedMovingAvgObsFakeQuantize.with_args(
    **_MANY, **_NARROW, **_OF_MANY, eps=2**-12
)
