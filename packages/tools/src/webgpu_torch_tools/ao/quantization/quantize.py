"""Networks made ready for quantisation, observed, and converted to integers."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Sequence

import webgpu_torch_core as torch
import webgpu_torch_nn as nn
from webgpu_torch._holding import Answer
from webgpu_torch_nn import Module

from ..nn import quantized as nnq
from ..nn.intrinsic.modules import _FusedModule
from .fake_quantize import FakeQuantizeBase
from .observer import ObserverBase
from .qconfig import (
    _add_module_to_qconfig_obs_ctr,
    _assert_valid_qconfig,
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
)
from .quantization_mappings import (
    _get_special_act_post_process,
    _has_special_act_post_process,
    get_default_dynamic_quant_module_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
    no_observer_set,
)
from .stubs import DeQuantStub, QuantWrapper
from .utils import has_no_children_ignoring_parametrizations

Mapping = dict[Callable[..., Answer], Answer]
Config = dict[str, Answer]


def get_default_custom_config_dict() -> Config:
    """Return which modules of others' stand for which when they are observed, and when they are converted: none."""
    return {"float_to_observed_custom_module_class": {}, "observed_to_quantized_custom_module_class": {}}


def propagate_qconfig_(
    module: Module, qconfig_dict: dict[Answer, Answer] | None = None, prepare_custom_config_dict: Config | None = None
) -> None:
    """Give every module in a network its configuration: its own, one by its name or class, or that of what holds it.

    Args:
        module: the network.
        qconfig_dict: configurations by names and classes.
        prepare_custom_config_dict: ``non_traceable_module_name`` and ``non_traceable_module_class``: what is left out.
    """
    custom = prepare_custom_config_dict or {}
    _propagate(module, qconfig_dict or {}, None, "", custom)


def _propagate(module: Module, known: dict[Answer, Answer], parent: Answer, prefix: str, custom: Config) -> None:
    found = known.get(prefix, known.get(type(module), parent))
    found = getattr(module, "qconfig", found)
    _assert_valid_qconfig(found, module)
    module.qconfig = placed = _add_module_to_qconfig_obs_ctr(found, module)
    for name, child in module.named_children():
        left_out = custom.get("non_traceable_module_name", []), custom.get("non_traceable_module_class", [])
        if name not in left_out[0] and type(child) not in left_out[1]:
            _propagate(child, known, placed, f"{prefix}.{name}" if prefix else name, custom)


def _observer_forward_hook(self: Answer, input: Answer, output: Answer) -> Answer:
    return self.activation_post_process(output)


def _observer_forward_pre_hook(self: Answer, input: Answer) -> Answer:
    return self.activation_post_process(input[0])


def _devices(module: Module) -> set[torch.device]:
    return {each.device for each in (*module.parameters(), *module.buffers())}


def _sees_each_anew(qconfig: Answer) -> bool:
    """Return whether what observes activations keeps nothing of those before."""
    activation = qconfig.activation()
    watched = getattr(activation, "activation_post_process", activation)
    return bool(getattr(watched, "is_dynamic", False)) and getattr(watched, "averaging_constant", 1) == 1


def _observe(module: Answer, device: torch.device | None, special: Answer = None) -> None:
    """Let an observer see what a module gives."""
    if getattr(module, "qconfig", None) is None or isinstance(module, DeQuantStub):
        return
    observer = module.qconfig.activation() if special is None else special()
    module.add_module("activation_post_process", observer if device is None else observer.to(device))
    if _sees_each_anew(module.qconfig):
        module.register_forward_pre_hook(_observer_forward_pre_hook, prepend=True)
    else:
        module.register_forward_hook(_observer_forward_hook, prepend=True)


def _is_taken_whole(module: Module) -> bool:
    """Return whether the modules in one are its own business."""
    return isinstance(module, _FusedModule) or hasattr(module, "weight_fake_quant")


def _add_observer_(
    module: Answer, qconfig_propagation_list: Iterable[Answer] | None = None, non_leaf_module_list: Iterable[Answer] | None = None,
    device: torch.device | None = None, custom_module_class_mapping: Mapping | None = None,
) -> None:  # fmt: skip
    """Let observers see what the modules in a network give.

    Raises:
        AssertionError: the network is on several devices.
    """
    known = set(qconfig_propagation_list or get_default_qconfig_propagation_list())
    places = _devices(module)
    if device is None and len(places) > 1:
        raise AssertionError(
            f"_add_observer_ only works with cpu or single-device CUDA modules, but got devices {places}"
        )
    place = device or next(iter(places), None)
    custom, whole = custom_module_class_mapping or {}, set(non_leaf_module_list or ())
    for name, child in list(module.named_children()):
        configured = getattr(child, "qconfig", None) is not None
        if type(child) is nn.Dropout:
            continue
        if isinstance(child, nnq.FloatFunctional | nnq.QFunctional):
            if configured:
                made = child.qconfig.activation()
                child.activation_post_process = made if place is None else made.to(place)
        elif _is_taken_whole(child) or type(child) in whole:
            _observe(child, place)
        elif _has_special_act_post_process(child):
            _observe(child, place, _get_special_act_post_process(child))
        elif configured and type(child) in custom:
            observed = custom[type(child)].from_float(child)
            setattr(module, name, observed)
            if not isinstance(observed, tuple(no_observer_set())):
                _observe(observed, place)
        else:
            _add_observer_(child, known, whole, place, custom)
    alone = has_no_children_ignoring_parametrizations(module) or hasattr(module, "weight_fake_quant")
    if alone and not isinstance(module, nn.Sequential) and type(module) in known:
        _observe(module, place)


def add_quant_dequant(module: Module) -> Module:
    """Return a network whose modules that have configurations of their own are between stubs: :class:`QuantWrapper`."""
    if has_no_children_ignoring_parametrizations(module) and getattr(module, "qconfig", None):
        return QuantWrapper(module)
    for name, child in list(module.named_children()):
        module._modules[name] = add_quant_dequant(child)
    return module


def prepare(
    model: Module, inplace: bool = False, allow_list: Iterable[Answer] | None = None,
    observer_non_leaf_module_list: Iterable[Answer] | None = None, prepare_custom_config_dict: Config | None = None,
) -> Module:  # fmt: skip
    """Return a network whose modules are observed: run it on examples, then :func:`convert` it.

    Args:
        model: the network; a module's ``qconfig`` is its configuration and that of the modules in it.
        inplace: change the network itself.
        allow_list: classes of the modules that are observed.
        observer_non_leaf_module_list: classes of modules that are observed as a whole.
        prepare_custom_config_dict: ``float_to_observed_custom_module_class``: what stands for modules of other classes.
    """
    custom = prepare_custom_config_dict or get_default_custom_config_dict()
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    if not any(getattr(each, "qconfig", None) for each in model.modules()):
        warnings.warn(
            "None of the submodule got qconfig applied. Make sure you passed correct configuration through `qconfig_dict` or by "
            "assigning the `.qconfig` attribute directly on submodules", stacklevel=2,
        )  # fmt: skip
    stand_ins = custom.get("float_to_observed_custom_module_class", {})
    _add_observer_(model, allow_list, observer_non_leaf_module_list, None, stand_ins)
    return model


def _remove_qconfig(module: Answer) -> None:
    """Take observers and configurations out of a network."""
    for child in module.children():
        _remove_qconfig(child)
    if hasattr(module, "qconfig"):
        del module.qconfig
    if isinstance(getattr(module, "activation_post_process", None), ObserverBase | FakeQuantizeBase):
        del module.activation_post_process
    for hooks, own in (
        (module._forward_pre_hooks, _observer_forward_pre_hook),
        (module._forward_hooks, _observer_forward_hook),
    ):
        for key in [key for key, hook in hooks.items() if hook is own]:
            del hooks[key]


def quantize(
    model: Module,
    run_fn: Callable[..., Answer],
    run_args: Sequence[Answer],
    mapping: Mapping | None = None,
    inplace: bool = False,
) -> Module:
    """Return a network in integers: prepared, run by ``run_fn(model, *run_args)`` on examples, and converted.

    Args:
        model: the network, with configurations.
        run_fn, run_args: what runs it.
        mapping: which module stands for which.
        inplace: change the network itself.
    """
    model = (model if inplace else copy.deepcopy(model)).eval()
    prepare(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, mapping or get_default_static_quant_module_mappings(), inplace=True)


_DYNAMIC = (nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell)
_BY_TYPE = {
    torch.qint8: (default_dynamic_qconfig, _DYNAMIC), torch.float16: (float16_dynamic_qconfig, _DYNAMIC),
    torch.quint8: (float_qparams_weight_only_qconfig, (nn.EmbeddingBag, nn.Embedding)),
}  # fmt: skip


def quantize_dynamic(
    model: Module,
    qconfig_spec: Answer = None,
    dtype: torch.dtype = torch.qint8,
    mapping: Mapping | None = None,
    inplace: bool = False,
) -> Module:
    """Return a network whose weights are integers, and whose activations are quantised where they meet them.

    Args:
        model: the network.
        qconfig_spec: names and classes of modules, a set, or a dictionary with configurations; linear layers by default.
        dtype: of the weights: ``torch.qint8``, ``torch.float16``, or ``torch.quint8`` for tables.
        mapping: which module stands for which.
        inplace: change the network itself.

    Raises:
        ValueError: there are no configurations for a type.
        RuntimeError: the same, of a set.
    """
    if qconfig_spec is None:
        if dtype not in _BY_TYPE:
            raise ValueError(
                f"Don't know how to quantize with default settings for {dtype}. Provide full qconfig please"
            )
        qconfig, kinds = _BY_TYPE[dtype]
        qconfig_spec = dict.fromkeys(kinds, qconfig)
    elif isinstance(qconfig_spec, set):
        if dtype not in _BY_TYPE:
            raise RuntimeError("Unknown dtype specified for quantize_dynamic: ", str(dtype))
        qconfig_spec = dict.fromkeys(qconfig_spec, _BY_TYPE[dtype][0])
    model = (model if inplace else copy.deepcopy(model)).eval()
    propagate_qconfig_(model, qconfig_spec)
    return convert(model, mapping or get_default_dynamic_quant_module_mappings(), inplace=True)


def prepare_qat(model: Module, mapping: Mapping | None = None, inplace: bool = False) -> Module:
    """Return a network that is trained with its weights and activations rounded as integers would be.

    Args:
        model: the network, in training mode, with configurations.
        mapping: which module stands for which.
        inplace: change the network itself.

    Raises:
        AssertionError: it is in evaluation mode.
    """
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    stand_ins = mapping or get_default_qat_module_mappings()
    model = model if inplace else copy.deepcopy(model)
    propagate_qconfig_(model)
    convert(model, stand_ins, inplace=True, remove_qconfig=False)
    return prepare(model, observer_non_leaf_module_list=set(stand_ins.values()), inplace=True)


def quantize_qat(
    model: Module, run_fn: Callable[..., Answer], run_args: Sequence[Answer], inplace: bool = False
) -> Module:
    """Return a network in integers: prepared for training, trained by ``run_fn(model, *run_args)``, and converted.

    Args:
        model: the network, with configurations.
        run_fn, run_args: what trains it.
        inplace: change the network itself.
    """
    model = (model if inplace else copy.deepcopy(model)).train()
    prepare_qat(model, inplace=True)
    run_fn(model, *run_args)
    return convert(model, inplace=True)


def convert(
    module: Module, mapping: Mapping | None = None, inplace: bool = False, remove_qconfig: bool = True, is_reference: bool = False,
    convert_custom_config_dict: Config | None = None, use_precomputed_fake_quant: bool = False,
) -> Module:  # fmt: skip
    """Return a network in which other modules stand for those that were observed or trained: in integers by default.

    Args:
        module: the network.
        mapping: which module stands for which.
        inplace: change the network itself.
        remove_qconfig: take configurations and observers out.
        is_reference: modules that compute in floating-point numbers what those in integers do; they are not here.
        convert_custom_config_dict: ``observed_to_quantized_custom_module_class``: what stands for modules of other classes.
        use_precomputed_fake_quant: accepted.

    Raises:
        NotImplementedError: reference modules are asked for.
    """
    if is_reference:
        raise NotImplementedError("is_reference=True: reference modules are not here; convert to quantized ones")
    custom = convert_custom_config_dict or get_default_custom_config_dict()
    module = module if inplace else copy.deepcopy(module)
    known = get_default_static_quant_module_mappings() if mapping is None else mapping
    _convert(module, known, custom.get("observed_to_quantized_custom_module_class", {}), use_precomputed_fake_quant)
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def _convert(module: Module, mapping: Mapping, custom: Mapping, precomputed: bool) -> None:
    for name, child in list(module.named_children()):
        if not _is_taken_whole(child) and type(child) not in custom:
            _convert(child, mapping, custom, precomputed)
        module._modules[name] = swap_module(child, mapping, custom, precomputed)


def swap_module(
    mod: Module,
    mapping: Mapping,
    custom_module_class_mapping: Mapping | None = None,
    use_precomputed_fake_quant: bool = False,
) -> Module:
    """Return what stands for a module that has a configuration, with its hooks and on its device; others as they are.

    Args:
        mod: the module.
        mapping: which class stands for which.
        custom_module_class_mapping: the same for classes that are made by ``from_observed``.
        use_precomputed_fake_quant: accepted.
    """
    if getattr(mod, "qconfig", None) is None:
        return mod
    custom = custom_module_class_mapping or {}
    if type(mod) in custom:
        made = custom[type(mod)].from_observed(mod)
    elif type(mod) in mapping:
        made = mapping[type(mod)].from_float(mod, use_precomputed_fake_quant=use_precomputed_fake_quant)
    else:
        return mod
    for hook in mod._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _observer_forward_hook:
            made.register_forward_hook(hook)
    places = _devices(mod)
    if len(places) == 1:
        made.to(next(iter(places)))
    return made


def default_eval_fn(model: Module, calib_data: Iterable[tuple[Answer, Answer]]) -> None:
    """Run a network on pairs of examples and targets, in evaluation mode."""
    model.eval()
    for data, _ in calib_data:
        model(data)
