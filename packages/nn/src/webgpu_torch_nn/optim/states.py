"""What optimisers remember of a parameter: numbers of the host to their steps, tensors to everybody else."""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, TypeAlias

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.record.devices import host_device

#: what an optimiser remembers of a parameter, or a group of parameters' options
Named: TypeAlias = dict[str, Any]
#: one such thing: a tensor, a number
Kept: TypeAlias = Any
#: state that is one number: a Python float to the steps, so that using it reads nothing back from a device, else a tensor
SCALARS = frozenset(("step", "mu_product", "eta", "mu"))


def to_scalar(value: Kept) -> Kept:
    """Return a one-element tensor's value as a Python number; other values unchanged."""
    return value.item() if isinstance(value, Tensor) else value


def _get_scalar_dtype(is_fused: bool | None = None) -> torch.dtype:
    """Return the type of a count of steps: float64 if that is the default type, else float32."""
    wide = torch.get_default_dtype() is torch.float64 and not is_fused
    return torch.float64 if wide else torch.float32


if TYPE_CHECKING:
    _Dictionary = Named
else:

    class _Dictionary(MutableMapping, dict):
        # To type checkers a dictionary is a mapping already. Its own memory stays empty.
        __slots__ = ()


class ParameterState(_Dictionary):
    """One parameter's state as PyTorch's optimisers have it: a count of steps is a tensor without dimensions.

    Such a tensor is made when somebody looks: steps compute with :attr:`kept`. Whoever holds one sees it change with the next
    step, and what is written into it counts. Replays of a captured step know only what is assigned here, and what they count
    is seen with the next look.

    Args:
        given: the state, with numbers or with tensors in their place.
        watched: where states go whose tensors somebody may hold.
    """

    __slots__ = ("kept", "shown", "watched")

    def __init__(self, given: Named, watched: list[ParameterState]) -> None:
        self.kept: Named = {}
        self.shown: dict[str, tuple[Tensor, int]] = {}
        self.watched = watched
        self.update(given)

    def __getitem__(self, name: str) -> Kept:
        value = self.kept[name]
        if name not in SCALARS or value.__class__ is not float:
            return value
        self.take_writes()
        if not self.shown:
            self.watched.append(self)
        if name not in self.shown:
            self._show(name, torch.tensor(self.kept[name], dtype=_get_scalar_dtype(), device=host_device()))
        # A replay may have counted since.
        elif self.shown[name][0].item() != self.kept[name]:
            self._show(name, self.shown[name][0].fill_(self.kept[name]))
        return self.shown[name][0]

    def __setitem__(self, name: str, value: object) -> None:
        self.shown.pop(name, None)
        if name in SCALARS and isinstance(value, Tensor) and not value.requires_grad and value.device.type != "meta":
            self.kept[name] = float(value)
            if value.device == torch.device(host_device()):
                if not self.shown:
                    self.watched.append(self)
                self._show(name, value)
        else:
            self.kept[name] = value

    def __delitem__(self, name: str) -> None:
        self.shown.pop(name, None)
        del self.kept[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kept)

    def __len__(self) -> int:
        return len(self.kept)

    def __repr__(self) -> str:
        return repr(dict(self.items()))

    def __reduce__(self) -> tuple[object, ...]:
        return dict, (dict(self.items()),)

    def __or__(self, other: Named) -> Named:
        return dict(self.items()) | other

    def copy(self) -> Named:
        """Return a dictionary of the same."""
        return dict(self.items())

    def _show(self, name: str, value: Tensor) -> None:
        self.shown[name] = value, value._version

    def take_writes(self) -> None:
        """Take over what somebody wrote into a tensor."""
        for name, (value, version) in self.shown.items():
            if value._version != version:
                self.kept[name] = float(value)
                self._show(name, value)

    def renew(self) -> bool:
        """Write the numbers of now into the tensors that somebody holds, let the others go, and return whether there are any."""
        for name in list(self.shown):
            value, _ = self.shown.pop(name)
            # This name, and the call's argument.
            if sys.getrefcount(value) > 2:
                self._show(name, value.fill_(self.kept[name]))
        return bool(self.shown)
