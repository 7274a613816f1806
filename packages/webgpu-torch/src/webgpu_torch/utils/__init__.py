"""Utilities, as ``torch.utils``."""

from typing import TYPE_CHECKING

from webgpu_torch_core.tensors.swapping import swap_tensors as swap_tensors

from .._parts import lazily as _lazily
from . import _contextlib as _contextlib
from . import _python_dispatch as _python_dispatch
from . import _pytree as _pytree
from . import checkpoint as checkpoint
from . import data as data
from . import deterministic as deterministic
from . import dlpack as dlpack
from . import hooks as hooks

if TYPE_CHECKING:
    from . import benchmark as benchmark
    from . import flop_counter as flop_counter
    from . import module_tracker as module_tracker
else:
    __getattr__ = _lazily(__name__, "benchmark", "flop_counter", "module_tracker")
