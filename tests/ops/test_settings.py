"""Switches that are read back as they were set, names of types, and small methods: the same programs on PyTorch and here."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
import webgpu_torch as facade


def x(t: Any) -> Any:
    return t.arange(6.0).reshape(2, 3)


def shared(t: Any) -> Any:
    """Return what a tensor that was set to another's memory shows, before and after a write."""
    source = x(t)
    target = t.empty(0).set_(source.untyped_storage(), 1, (2, 2), (2, 1))
    target[0, 0] = 9
    return source.tolist(), target.tolist(), target.data_ptr() - source.data_ptr()


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "precision": lambda t: (t.set_float32_matmul_precision("high"), t.get_float32_matmul_precision()),
    "unknown precision": lambda t: (t.set_float32_matmul_precision("low"), t.get_float32_matmul_precision()),
    "no precision": lambda t: t.set_float32_matmul_precision(3),
    "threads": lambda t: (t.set_num_threads(1), t.get_num_threads()),
    "no threads": lambda t: t.set_num_threads(0),
    "threads by name": lambda t: t.set_num_threads("a"),
    "true threads": lambda t: t.set_num_threads(True),
    "no threads between operations": lambda t: t.set_num_interop_threads(-1),
    "deterministic": lambda t: (
        t.use_deterministic_algorithms(True, warn_only=True),
        t.are_deterministic_algorithms_enabled(),
        t.is_deterministic_algorithms_warn_only_enabled(),
        t.get_deterministic_debug_mode(),
    ),
    "deterministic by name": lambda t: (
        t.set_deterministic_debug_mode("error"),
        t.get_deterministic_debug_mode(),
        t.is_deterministic_algorithms_warn_only_enabled(),
    ),
    "deterministic by an unknown name": lambda t: t.set_deterministic_debug_mode("x"),
    "deterministic by a number": lambda t: t.set_deterministic_debug_mode(5),
    "deterministic by a float": lambda t: t.set_deterministic_debug_mode(1.5),
    "deterministic by text": lambda t: t.use_deterministic_algorithms("a"),
    "warn always": lambda t: (t.set_warn_always(True), t.is_warn_always_enabled(), t.set_warn_always(False)),
    "warn one": lambda t: t.set_warn_always(1),
    "default type": lambda t: (
        t.set_default_tensor_type(t.DoubleTensor),
        str(t.get_default_dtype()),
        t.set_default_tensor_type("torch.FloatTensor"),
        str(t.get_default_dtype()),
    ),
    "default integers": lambda t: t.set_default_tensor_type(t.IntTensor),
    "default number": lambda t: t.set_default_tensor_type(3),
    "storages": lambda t: (t.is_storage(x(t).untyped_storage()), t.is_storage(x(t))),
    "names of types": lambda t: (
        t.typename(x(t)), t.typename(x(t).int()), t.typename(3), t.typename([]), t.typename(t.Tensor),
    ),
    "layout": lambda t: (repr(x(t).layout), x(t).layout == t.strided, isinstance(t.strided, t.layout)),
    "pickled layout": lambda t: pickle.loads(pickle.dumps(t.strided)) is t.strided if t is facade else True,
    "questions": lambda t: (
        t.is_signed(x(t)), t.is_inference(x(t)), t.get_device(x(t)), t.detach(x(t).requires_grad_()).requires_grad,
    ),
    "order of dimensions": lambda t: (x(t).dim_order(), x(t).T.dim_order(), x(t)[:, None].dim_order()),
    "dense": lambda t: (x(t).dense_dim(), x(t).sparse_dim(), x(t).is_distributed(), x(t).name),
    "coalesced": lambda t: x(t).is_coalesced(),
    "address": lambda t: (lambda y: y.const_data_ptr() == y.data_ptr())(x(t)),
    "map2_": lambda t: x(t).map2_(x(t), t.ones(3), lambda a, b, c: a + 2 * b + c).tolist(),
    "set_ to a tensor": lambda t: t.empty(0).set_(x(t)).tolist(),
    "set_ to a part": lambda t: t.empty(0).set_(x(t), 1, (2, 2), (2, 1)).tolist(),
    "set_ without strides": lambda t: t.empty(0).set_(x(t), 1, (2, 2)).tolist(),
    "set_ to nothing": lambda t: tuple(x(t).set_().shape),
    "set_ to a storage": lambda t: t.empty(0).set_(x(t).T.untyped_storage()).tolist(),
    "set_ to bytes": lambda t: t.empty(0, dtype=t.uint8).set_(x(t).untyped_storage()).tolist(),
    "set_ to bytes of its own": lambda t: t.empty(0, dtype=t.uint8).set_(t.UntypedStorage(3)).shape[0],
    "set_ to integers": lambda t: t.empty(0).set_(x(t).int()),
    "shared": shared,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threads, interop = torch.get_num_threads(), facade.get_num_threads()
    yield
    for library, count in ((torch, threads), (facade, interop)):
        library.set_num_threads(count)
        library.set_float32_matmul_precision("highest")
        library.set_deterministic_debug_mode(0)
        library.set_default_dtype(library.float32)


def outcome(library: Any, name: str) -> Any:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            result = PROGRAMS[name](library)
        except (RuntimeError, TypeError, ValueError) as error:
            return type(error)
    # Some of PyTorch's warnings come once only.
    return result, {each.category for each in heard}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    assert outcome(facade, name) == outcome(torch, name)


def test_memory_of_storages_on_devices(device: str) -> None:
    source = facade.arange(6.0, device=device)
    target = facade.empty(0, device=device).set_(source.untyped_storage(), 2, (2, 2))
    target.mul_(10)
    assert source.tolist() == [0, 1, 20, 30, 40, 50]
    numpy.testing.assert_array_equal(target.cpu().numpy(), [[20, 30], [40, 50]])
    with pytest.raises(RuntimeError, match="different device"):
        facade.empty(0, device="meta").set_(source)
