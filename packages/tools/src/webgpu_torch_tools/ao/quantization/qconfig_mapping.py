"""Configurations by what they are for: all modules, classes, names."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable

import webgpu_torch_core as torch
import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch_nn import functional as F

from .fake_quantize import FixedQParamsFakeQuantize, default_weight_fake_quant
from .observer import (
    _PartialWrapper,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
    default_placeholder_observer,
    default_weight_observer,
)
from .qconfig import (
    QConfig,
    QConfigAny,
    default_quint8_weight_qconfig,
    default_reuse_input_qconfig,
    get_default_qat_qconfig,
    get_default_qconfig,
)

_FIXED: dict[Answer, _PartialWrapper] = {
    **dict.fromkeys((nn.Hardsigmoid, F.hardsigmoid, "hardsigmoid", "hardsigmoid_", nn.Sigmoid, torch.sigmoid, "sigmoid", "sigmoid_", nn.Softmax),
                    default_fixed_qparams_range_0to1_observer),
    **dict.fromkeys((nn.Tanh, torch.tanh, "tanh", "tanh_"), default_fixed_qparams_range_neg1to1_observer),
}  # fmt: skip
_STYLES = (
    "global_qconfig", "object_type_qconfigs", "module_name_regex_qconfigs", "module_name_qconfigs",
    "module_name_object_type_order_qconfigs",
)  # fmt: skip


class QConfigMapping:
    """Configurations for all modules, and others for classes, functions, names and patterns of names."""

    def __init__(self) -> None:
        self.global_qconfig: QConfigAny = None
        self.object_type_qconfigs: OrderedDict[Callable[..., Answer] | str, QConfigAny] = OrderedDict()
        self.module_name_regex_qconfigs: OrderedDict[str, QConfigAny] = OrderedDict()
        self.module_name_qconfigs: OrderedDict[str, QConfigAny] = OrderedDict()
        self.module_name_object_type_order_qconfigs: OrderedDict[tuple[str, Answer, int], QConfigAny] = OrderedDict()

    def set_global(self, global_qconfig: QConfigAny) -> QConfigMapping:
        """Set the configuration of all that has no other."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type: Callable[..., Answer] | str, qconfig: QConfigAny) -> QConfigMapping:
        """Set the configuration of a class of modules, a function, or the name of a method."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex: str, qconfig: QConfigAny) -> QConfigMapping:
        """Set the configuration of modules whose names match a pattern; the first that matches counts."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name: str, qconfig: QConfigAny) -> QConfigMapping:
        """Set the configuration of a module by its name."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(
        self, module_name: str, object_type: Answer, index: int, qconfig: QConfigAny
    ) -> QConfigMapping:
        """Set the configuration of one of several uses of a class or a function in a module."""
        self.module_name_object_type_order_qconfigs[(module_name, object_type, index)] = qconfig
        return self

    def __repr__(self) -> str:
        text = "QConfigMapping ("
        for name in _STYLES:
            value = getattr(self, name)
            text += f"\n {name}"
            if isinstance(value, OrderedDict) and value:
                text += "".join(f"\n  {key}: {each}" for key, each in value.items())
            else:
                text += f"\n  {value}"
        return text + "\n)"

    def to_dict(self) -> dict[str, Answer]:
        """Return the configurations as a dictionary, the older form."""
        return {
            "": self.global_qconfig, "object_type": list(self.object_type_qconfigs.items()),
            "module_name_regex": list(self.module_name_regex_qconfigs.items()), "module_name": list(self.module_name_qconfigs.items()),
            "module_name_object_type_order": [(*key, each) for key, each in self.module_name_object_type_order_qconfigs.items()],
        }  # fmt: skip

    @classmethod
    def from_dict(cls, qconfig_dict: dict[str, Answer]) -> QConfigMapping:
        """Return the configurations of a dictionary, the older form."""
        made = cls()
        made.global_qconfig = qconfig_dict.get("")
        for name in ("object_type", "module_name_regex", "module_name"):
            getattr(made, f"{name}_qconfigs").update(qconfig_dict.get(name, ()))
        for *key, each in qconfig_dict.get("module_name_object_type_order", ()):
            made.module_name_object_type_order_qconfigs[tuple(key)] = each  # type: ignore[index]
        return made

    def of_module(self, name: str, kind: type) -> QConfigAny:
        """Return the configuration of a module by its name and class: the most special one."""
        if name in self.module_name_qconfigs:
            return self.module_name_qconfigs[name]
        for pattern, each in self.module_name_regex_qconfigs.items():
            if re.match(pattern, name):
                return each
        return self.object_type_qconfigs.get(kind, self.global_qconfig)


def _mapping(qconfig: QConfig, transposed: Answer, is_qat: bool) -> QConfigMapping:
    made = QConfigMapping().set_global(qconfig).set_object_type("reshape", default_reuse_input_qconfig)
    for each in (
        nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d,
    ):  # fmt: skip
        made.set_object_type(each, QConfig(qconfig.activation, transposed))
    for each in (F.layer_norm, nn.LayerNorm):
        made.set_object_type(each, QConfig(qconfig.activation, default_placeholder_observer))
    made.set_object_type(nn.PReLU, default_quint8_weight_qconfig)
    for each, observer in _FIXED.items():
        activation = FixedQParamsFakeQuantize.with_args(observer=observer) if is_qat else observer
        made.set_object_type(each, QConfig(activation, transposed))
    return made


def get_default_qconfig_mapping(backend: str = "x86", version: int = 0) -> QConfigMapping:
    """Return the configurations for quantising a trained model, for ``"x86"``, ``"fbgemm"``, ``"qnnpack"`` or ``"onednn"``."""
    return _mapping(get_default_qconfig(backend, version), default_weight_observer, False)


def get_default_qat_qconfig_mapping(backend: str = "x86", version: int = 1) -> QConfigMapping:
    """Return the configurations for training, for ``"x86"``, ``"fbgemm"``, ``"qnnpack"`` or ``"onednn"``."""
    return _mapping(get_default_qat_qconfig(backend, version), default_weight_fake_quant, True)
