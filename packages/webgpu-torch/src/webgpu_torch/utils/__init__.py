"""Utilities, as ``torch.utils``."""

from . import _pytree as _pytree
from . import benchmark as benchmark
from . import checkpoint as checkpoint
from . import data as data
from . import dlpack as dlpack
from . import hooks as hooks
