# Families are imported for what they declare.
# pyright: reportUnusedImport=false
"""Every operation, one family per file; importing this package attaches them to :class:`~webgpu_torch_core.Tensor`."""

from __future__ import annotations

from typing import Any

from ..dispatch.overridden_members import override_methods
from ..dispatch.registry import OPERATIONS, functions
from . import elementwise, host_algorithms, linalg, queries
from .complex import views as complex_views
from .contraction import convolution, einsum, matrix_products, products, transposed_convolution
from .creation import conversion, copy_protocols, factories, host_memory, lazy_copies, ranges, reading, strided
from .elementwise import operators, overloads, special_functions
from .in_place import functions as in_place_functions
from .in_place import methods
from .indexing import gathering, scattering, subscripts
from .indexing import in_place as index_writes
from .movement import joining, rearranging, reinterpreting, splitting, view_copies, views
from .neural import attention, composites, fake_quantization, layers, losses
from .random import counts, draws, fills
from .reduction import counting, hashing, histograms, masked_reductions, moments, quantiles, reductions, statistics
from .signal import fourier, spectrograms, window_functions
from .sorting import order, searching

override_methods()


def attach_all(namespace: dict[str, Any]) -> None:
    """Put every function of namespace ``torch`` into a module's globals."""
    namespace.update(functions("torch"))
    namespace.update(in_place_functions.functions())


__all__ = ["OPERATIONS", "attach_all"]
