"""pytest plugin: names that files of older tests import and that the helpers of the PyTorch installed no longer have."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch._ops as operators
import torch.testing._internal.common_cuda as common_cuda
import torch.testing._internal.common_device_type as common_device_type
import torch.testing._internal.common_methods_invocations as common_methods
import torch.testing._internal.common_mkldnn as common_mkldnn
import torch.testing._internal.common_nn as common_nn
import torch.testing._internal.common_utils as common_utils

with contextlib.suppress(ImportError):
    # A file takes it for granted that somebody has imported it.
    import distutils.version  # noqa: F401


def _unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


class MadeDirectly(operators.HigherOrderOperator):
    """Older tests make operators themselves, without a class that says what they do when they are called."""

    def __new__(cls, *names: object, **options: object) -> Any:
        return object.__new__(type(cls.__name__, (cls,), {}))

    def __call__(self, *inputs: object, **options: object) -> Any:
        return operators.HigherOrderOperator.__call__(self, *inputs, **options)


operators.HigherOrderOperator = MadeDirectly
_instantiated = common_device_type.instantiate_device_type_tests


def _instantiate(generic_test_class: type, scope: dict[str, Any], **options: Any) -> None:
    """Make a class's tests for each device; what was written when the made classes had no class of the file as a base still ends.

    ``super(self.__class__, self).setUp()`` means PyTorch's own base there, and would find itself in a base.
    """
    _instantiated(generic_test_class, scope, **options)
    for name in ("setUp", "tearDown"):
        if "__class__" in getattr(getattr(vars(generic_test_class).get(name), "__code__", None), "co_names", ()):
            delattr(generic_test_class, name)


common_device_type.instantiate_device_type_tests = _instantiate
_NAMES: tuple[tuple[Any, str, object], ...] = (
    (common_utils, "skipIfMps", _unchanged),
    # PyTorch's references in Python are not what a program calls.
    (common_methods, "binary_ufuncs_and_refs", common_methods.binary_ufuncs),
    (common_cuda, "tf32_is_not_fp32", lambda: False),
    (common_nn, "new_module_tests", common_nn.get_new_module_tests()),
    (common_mkldnn, "bf32_on_and_off", lambda *_, **__: _unchanged),
)
for _module, _name, _value in _NAMES:
    if not hasattr(_module, _name):
        setattr(_module, _name, _value)


class AbsentTests(types.ModuleType):
    """Stands for a file of tests that another one takes classes from and that the folder has not: its classes have no tests."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__test__": False})


class AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds files of ``test/autograd`` that are not in the folder."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        return importlib.machinery.ModuleSpec(fullname, self) if fullname.split(".")[0] == "autograd" else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return AbsentTests(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        del module


sys.meta_path.append(AbsentFinder())
