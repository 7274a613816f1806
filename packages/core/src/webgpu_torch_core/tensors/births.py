"""Which tensors a region makes.

Looking through all objects that the interpreter has would take longer the more there are, and miss frozen ones.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator

from ..ir.dtypes import dtype
from ..ir.layouts import Layout
from ..record.devices import device
from .storage import Storage
from .tensor import Tensor

_plain: classmethod[Tensor, ..., Tensor] = Tensor.__dict__["_from_storage"]
#: what open regions have made, by identity: in order of their beginning
_open: list[dict[int, Tensor]] = []
_lock = threading.Lock()


def _noted(cls: type[Tensor], storage: Storage, layout: Layout, dtype: dtype, place: device) -> Tensor:
    tensor = _plain.__func__(cls, storage, layout, dtype, place)
    for made in tuple(_open):
        made[id(tensor)] = tensor
    return tensor


@contextlib.contextmanager
def tensors_made(made: dict[int, Tensor]) -> Generator[None]:
    """Put every tensor that is made within, in any thread, into a dictionary by its identity; it is kept, so nothing takes its place.

    Outside of such a region making a tensor costs nothing more.
    """
    with _lock:
        _open.append(made)
        if len(_open) == 1:
            Tensor._from_storage = classmethod(_noted)  # type: ignore[assignment]
    try:
        yield
    finally:
        with _lock:
            _open[:] = [each for each in _open if each is not made]
            if not _open:
                Tensor._from_storage = _plain  # type: ignore[assignment]
