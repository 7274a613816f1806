"""The few names of ``torch.utils._python_dispatch`` that libraries ask; no tensor of this library wraps others."""

from __future__ import annotations

from webgpu_torch_core import Tensor


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Return whether a value is a tensor of a class that says how it is taken apart into other tensors."""
    return _takes_apart(type(t)) and isinstance(t, Tensor)


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Return whether a class of tensors says how they are taken apart into others."""
    return _takes_apart(t) and issubclass(t, Tensor)


def _takes_apart(kind: type) -> bool:
    return callable(_declared(kind, "__tensor_flatten__")) and callable(_declared(kind, "__tensor_unflatten__"))


def _declared(kind: type, name: str) -> object:
    found = getattr(kind, name, None)
    return None if getattr(found, "is_stub", False) else found
