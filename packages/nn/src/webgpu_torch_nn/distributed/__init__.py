"""Programs of several processes, as ``torch.distributed``: one alone, or several through MPI."""

from __future__ import annotations

from . import checkpoint as checkpoint
from . import device_mesh as device_mesh
from . import distributed_c10d as distributed_c10d
from . import fsdp as fsdp
from . import tensor as tensor
from .device_mesh import DeviceMesh as DeviceMesh
from .device_mesh import init_device_mesh as init_device_mesh
from .distributed_c10d import *
from .distributed_c10d import __all__ as _names
from .elastic.multiprocessing import errors as errors

__all__ = [*_names, "DeviceMesh", "init_device_mesh"]
