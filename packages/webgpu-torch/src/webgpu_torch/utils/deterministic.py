"""What reproducible programs may ask for, as ``torch.utils.deterministic``.

``fill_uninitialized_memory`` says whether memory that nothing was written to has known contents (NaN, the greatest integer, True)
while ``torch.use_deterministic_algorithms(True)`` is in force.
"""

import sys
from types import ModuleType

from webgpu_torch_core.api import kernel_switches


class _Deterministic(ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether memory that nothing was written to has known contents."""
        return kernel_switches.get_deterministic_fill_uninitialized_memory()

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        kernel_switches.set_deterministic_fill_uninitialized_memory(mode)


sys.modules[__name__].__class__ = _Deterministic
