"""Modules of other packages under the façade's names: ``import webgpu_torch.nn.utils.rnn`` gives the very module.

They are the modules themselves, not copies of their names, so that replacing a function in ``torch.nn.init`` reaches
the layers that call it.
"""

from __future__ import annotations

import sys
from types import ModuleType


def offer(module: ModuleType, name: str, leave_out: tuple[str, ...] = ()) -> None:
    """Let a module and those inside of it be imported by another name.

    Args:
        module: a package or a module, all of whose own modules are loaded.
        name: its other name.
        leave_out: modules inside of it that the façade has elsewhere.
    """
    sys.modules.setdefault(name, module)
    inside = module.__name__ + "."
    for path, each in list(sys.modules.items()):
        rest = path.removeprefix(inside)
        if rest != path and rest.partition(".")[0] not in leave_out:
            sys.modules.setdefault(f"{name}.{rest}", each)
