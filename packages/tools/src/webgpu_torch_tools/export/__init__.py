"""Modules as graphs of PyTorch's operations that are saved and run elsewhere, as ``torch.export``.

:func:`export` calls a module with example arguments and notes the operations that it computes; an :class:`ExportedProgram` has the
graph and the tensors. Files are PyTorch's (``.pt2``).
"""

from __future__ import annotations

from . import archive as archive
from . import exported_program as exported_program
from . import graph_signature as graph_signature
from .archive import load as load
from .archive import save as save
from .exported_program import ExportedProgram as ExportedProgram
from .exported_program import ModuleCallEntry as ModuleCallEntry
from .exported_program import ModuleCallSignature as ModuleCallSignature
from .exporting import export as export
from .graph_signature import ExportGraphSignature as ExportGraphSignature
from .sizes import Dim as Dim
from .sizes import dims as dims

__all__ = [
    "Dim", "ExportGraphSignature", "ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "dims", "export",
    "load", "save",
]  # fmt: skip
