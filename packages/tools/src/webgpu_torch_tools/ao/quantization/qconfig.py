"""Configurations: which observer, or which rounding, activations and weights have."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import webgpu_torch_core as torch
from webgpu_torch._holding import Answer
from webgpu_torch_nn import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, Identity, Module

from . import fake_quantize as fakes
from .fake_quantize import FakeQuantize, FakeQuantizeBase, FusedMovingAvgObsFakeQuantize
from .observer import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    NoopObserver,
    ObserverBase,
    PlaceholderObserver,
    ReuseInputObserver,
    _PartialWrapper,
    default_debug_observer,
    default_dynamic_quant_observer,
    default_float_qparams_observer,
    default_observer,
    default_per_channel_weight_observer,
    default_placeholder_observer,
    default_weight_observer,
    per_channel_weight_observer_range_neg_127_to_127,
    weight_observer_range_neg_127_to_127,
)

Maker: TypeAlias = Callable[..., Answer]


class _Pair(NamedTuple):
    activation: Answer
    weight: Answer


class QConfig(_Pair):
    """What makes the observers of activations and of weights.

    Args:
        activation: a class of observers, with arguments or without, or a function that returns one.
        weight: the same for weights.

    Raises:
        ValueError: an observer instead of what makes them.
    """

    __slots__ = ()

    def __new__(cls, activation: Answer, weight: Answer) -> QConfig:
        if isinstance(activation, Module) or isinstance(weight, Module):
            raise ValueError("QConfig received observer instance, please pass observer class instead. Use MyObserver.with_args(x=1) to override arguments to constructor if needed")  # fmt: skip
        return super().__new__(cls, activation, weight)


QConfigAny: TypeAlias = QConfig | None


class QConfigDynamic(_Pair):
    """What makes the observers of activations and of weights that are quantised dynamically; deprecated for :class:`QConfig`.

    Raises:
        ValueError: an observer instead of what makes them.
    """

    __slots__ = ()

    def __new__(cls, activation: Answer = Identity, weight: Answer = Identity) -> QConfigDynamic:
        if isinstance(weight, Module):
            raise ValueError("QConfigDynamic received observer instance, please pass observer class instead. Use MyObserver.with_args(x=1) to override arguments to constructor if needed")  # fmt: skip
        return super().__new__(cls, activation, weight)


default_qconfig = QConfig(default_observer, default_weight_observer)
default_debug_qconfig = QConfig(default_debug_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
float16_dynamic_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=torch.float16, is_dynamic=True),
    PlaceholderObserver.with_args(dtype=torch.float16),
)
float16_static_qconfig = QConfig(*(PlaceholderObserver.with_args(dtype=torch.float16) for _ in range(2)))
per_channel_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_per_channel_weight_observer)
float_qparams_weight_only_qconfig = QConfig(default_placeholder_observer, default_float_qparams_observer)
default_qat_qconfig = QConfig(fakes.default_fake_quant, fakes.default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(fakes.default_dynamic_fake_quant, fakes.default_weight_fake_quant)
default_weight_only_qconfig = QConfig(Identity, fakes.default_weight_fake_quant)
default_activation_only_qconfig = QConfig(fakes.default_fake_quant, Identity)
default_qat_qconfig_v2 = QConfig(fakes.default_fused_act_fake_quant, fakes.default_fused_wt_fake_quant)
default_reuse_input_qconfig = QConfig(ReuseInputObserver, NoopObserver)
_SIGNED = {"dtype": torch.qint8, "reduce_range": False, "eps": 2**-12}
default_symmetric_qnnpack_qconfig = QConfig(
    HistogramObserver.with_args(**_SIGNED), weight_observer_range_neg_127_to_127
)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(
    HistogramObserver.with_args(**_SIGNED), per_channel_weight_observer_range_neg_127_to_127
)
default_embedding_qat_qconfig = QConfig(NoopObserver.with_args(dtype=torch.float32), fakes.default_embedding_fake_quant)
default_quint8_weight_qconfig = QConfig(HistogramObserver, MinMaxObserver)
_TRAINED = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, **_SIGNED
)
default_symmetric_qnnpack_qat_qconfig = QConfig(_TRAINED, fakes.fused_wt_fake_quant_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    _TRAINED, fakes.fused_per_channel_wt_fake_quant_range_neg_127_to_127
)
_default_fp32_placeholder_qconfig = QConfig(*(PlaceholderObserver.with_args(dtype=torch.float32) for _ in range(2)))
_default_quint8_placeholder_qconfig = QConfig(PlaceholderObserver.with_args(dtype=torch.quint8), None)
#: whether an engine leaves the highest bit unused, and has a scale for each output
_ENGINES = {"fbgemm": (True, True), "x86": (True, True), "qnnpack": (False, False), "onednn": (False, True)}


def _engine(backend: str) -> tuple[bool, bool]:
    if backend not in _ENGINES:
        raise AssertionError(
            f"backend: {backend} not supported. backend must be one of ['fbgemm', 'onednn', 'qnnpack', 'x86']"
        )
    return _ENGINES[backend]


def get_default_qconfig(backend: str = "x86", version: int = 0) -> QConfig:
    """Return the configuration for quantising a trained model.

    Args:
        backend: ``"x86"``, ``"fbgemm"``, ``"qnnpack"`` or ``"onednn"``.
        version: 0.

    Raises:
        AssertionError: another engine, or another version.
    """
    reduced, several = _engine(backend)
    if version != 0:
        raise AssertionError(
            f"Version number: {version} in get_default_qconfig is not supported. Version number must be 0"
        )
    weight = default_per_channel_weight_observer if several else default_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=reduced), weight)


def get_default_qat_qconfig(backend: str = "x86", version: int | None = 1) -> QConfig:
    """Return the configuration for training with quantisation in mind.

    Args:
        backend: ``"x86"``, ``"fbgemm"``, ``"qnnpack"`` or ``"onednn"``.
        version: 1, or 0 for modules that observe and round apart.

    Raises:
        AssertionError: another engine, or another version.
    """
    reduced, several = _engine(backend)
    named: dict[str, Answer] = {} if backend == "onednn" else {"reduce_range": reduced}
    if version == 0:
        kind, weights = FakeQuantize, (fakes.default_weight_fake_quant, fakes.default_per_channel_weight_fake_quant)
    elif version == 1:
        kind = FusedMovingAvgObsFakeQuantize
        weights = (fakes.default_fused_wt_fake_quant, fakes.default_fused_per_channel_wt_fake_quant)
    else:
        raise AssertionError(
            f"Version number: {version} in get_default_qat_qconfig is not supported. Version number must be 0 or 1"
        )
    seen = kind.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **named)
    return QConfig(seen, weights[several])


def _assert_valid_qconfig(qconfig: Answer, mod: Module) -> None:
    """Raise where a configuration's weights have a scale for each position and a module's cannot.

    Raises:
        AssertionError: it is so.
    """
    if qconfig is None or qconfig.weight is None:
        return
    transposed = isinstance(mod, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d)
    if transposed and getattr(qconfig.weight(), "ch_axis", None) is not None:
        raise AssertionError("Per channel weight observer is not supported yet for ConvTranspose{n}d.")


def _same_maker(one: Answer, other: Answer) -> bool:
    if isinstance(one, _PartialWrapper) and isinstance(other, _PartialWrapper):
        first, second = dict(one.p.keywords), dict(other.p.keywords)
        inner = first.pop("observer", None), second.pop("observer", None)
        both = one.p.func == other.p.func and first == second
        return both and (inner[0] is inner[1] or _same_maker(*inner))
    return one == other


def qconfig_equals(q1: Answer, q2: Answer) -> bool:
    """Return whether two configurations make the same observers."""
    if q1 is None or q2 is None:
        return q1 is q2
    return _same_maker(q1.activation, q2.activation) and _same_maker(q1.weight, q2.weight)


class _Placed:
    """What makes an observer on a device."""

    def __init__(self, maker: Answer, device: torch.device) -> None:
        self.maker, self.device = maker, device

    def __call__(self) -> Answer:
        return self.maker().to(self.device)


def _add_module_to_qconfig_obs_ctr(qconfig: Answer, module: Module | None) -> Answer:
    """Return a configuration whose observers are made on the device of a module."""
    if module is None or qconfig is None or not isinstance(qconfig, _Pair):
        return qconfig
    places = {each.device for each in (*module.parameters(), *module.buffers())}
    device = next(iter(places)) if len(places) == 1 else None

    def placed(maker: Answer) -> Answer:
        known = isinstance(maker, type) and issubclass(maker, ObserverBase | FakeQuantizeBase)
        if device is None or not (known or isinstance(maker, _PartialWrapper)):
            return maker
        return _Placed(maker, device)

    return QConfig(placed(qconfig.activation), placed(qconfig.weight))


def get_default_qconfig_dict(backend: str = "x86", version: int = 0) -> dict[str, Answer]:
    """Return :func:`get_default_qconfig` as a dictionary of configurations; deprecated."""
    from .qconfig_mapping import get_default_qconfig_mapping

    return get_default_qconfig_mapping(backend, version).to_dict()


def get_default_qat_qconfig_dict(backend: str = "x86", version: int = 1) -> dict[str, Answer]:
    """Return :func:`get_default_qat_qconfig` as a dictionary of configurations; deprecated."""
    from .qconfig_mapping import get_default_qat_qconfig_mapping

    return get_default_qat_qconfig_mapping(backend, version).to_dict()
