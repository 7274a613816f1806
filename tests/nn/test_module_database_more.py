"""What else PyTorch tests of every module: errors, in-place forms, factories, copies, other strides and types."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest
from module_database import TABLE, Arguments, Case, fresh, ours, resolve, samples, torch
from torch.testing._internal.common_modules import ModuleErrorEnum
from translation import tensors, to_torch

pytestmark = pytest.mark.filterwarnings("ignore")
REFUSED = [name for name, entry in TABLE.items() if entry.module_error_inputs_func is not None]
IN_PLACE = [name for name, entry in TABLE.items() if "inplace" in inspect.signature(entry.module_cls).parameters]
MADE = [name for name, entry in TABLE.items() if "device" in inspect.signature(entry.module_cls).parameters]


@pytest.mark.parametrize("name", REFUSED)
def test_errors_are_those_of_torch(name: str) -> None:
    entry = TABLE[name]
    torch.manual_seed(7)
    found = entry.module_error_inputs_func(entry, device="cpu", dtype=torch.float32, requires_grad=False, training=True)
    for each in found:
        given, translate = each.module_error_input, Arguments("cpu")
        args, kwargs = translate(given.constructor_input.args), translate(given.constructor_input.kwargs)
        if each.error_on is ModuleErrorEnum.CONSTRUCTION_ERROR:
            with pytest.raises(each.error_type, match=each.error_regex):
                resolve(name)(*args, **kwargs)
            continue
        module = resolve(name)(*args, **kwargs)
        with pytest.raises(each.error_type, match=each.error_regex):
            module(*translate(given.forward_input.args), **translate(given.forward_input.kwargs))


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_forms_change_their_input(name: str, device: str) -> None:
    for sample in samples(name, True):
        given, translate = sample.constructor_input, Arguments(device)
        module = resolve(name)(*translate(given.args), **translate(given.kwargs) | {"inplace": True})
        expected = TABLE[name].module_cls(*given.args, **given.kwargs | {"inplace": True})
        assert repr(module) == repr(expected)
        x, y = translate(fresh(sample.forward_input.args[0])).detach(), fresh(sample.forward_input.args[0]).detach()
        assert module(x) is x
        expected(y)
        torch.testing.assert_close(to_torch(x), y)


@pytest.mark.parametrize("name", MADE)
def test_factory_arguments_reach_every_tensor(name: str) -> None:
    sample = samples(name, True)[0]
    given, translate = sample.constructor_input, Arguments("meta")
    for kind in ("float16", "float64"):
        theirs = {"device": "meta", "dtype": getattr(torch, kind)}
        expected = TABLE[name].module_cls(*given.args, **given.kwargs | theirs)
        actual = resolve(name)(
            *translate(given.args), **translate(given.kwargs) | {"device": "meta", "dtype": getattr(ours, kind)}
        )
        for one, other in (("named_parameters", "parameters"), ("named_buffers", "buffers")):
            left = {key: (each.dtype.name, each.device.type) for key, each in getattr(actual, one)()}
            right = {key: (str(each.dtype)[6:], each.device.type) for key, each in getattr(expected, one)()}
            assert left == right, other


@pytest.mark.parametrize("name", [name for name, entry in TABLE.items() if not entry.is_lazy])
def test_copies_and_other_strides_compute_the_same(name: str) -> None:
    for sample in samples(name, False)[:3]:
        case = Case(name, sample, False, "cpu")
        _, _, args, kwargs = case.arguments("cpu")
        expected = [to_torch(each) for each in tensors(case.module(*args, **kwargs), ours.Tensor)]
        for module in (pickle.loads(pickle.dumps(case.module)), copy.deepcopy(case.module)):
            assert not module.training and repr(module) == repr(case.module)
            found = [to_torch(each) for each in tensors(module(*args, **kwargs), ours.Tensor)]
            torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
        scattered = [_scattered(each) for each in args]
        found = [to_torch(each) for each in tensors(case.module(*scattered, **kwargs), ours.Tensor)]
        torch.testing.assert_close(found, expected, equal_nan=True)


def _scattered(value: Any) -> Any:
    """Return a tensor of the same elements, every second one of its memory."""
    if isinstance(value, ours.Tensor):
        return ours.stack([value.detach(), value.detach()], -1)[..., 0]
    if isinstance(value, list | tuple):
        return type(value)(map(_scattered, value))
    return value
