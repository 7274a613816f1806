"""What kernels report of what they find wrong: where it stands, and what was read there."""

from __future__ import annotations

from collections.abc import Mapping

from .gpu.interface import Gpu, Owned
from .memory import Part
from .program import REPORT_WORDS
from .replay import REPORT_BYTES

_NOTHING = bytes(REPORT_BYTES)


class KernelReports:
    """Reports of a device's kernels.

    Attributes:
        waiting: the buffers, by number, in which kernels may have reported since somebody looked.
        found: what was read there and nobody was told: codes, each with what was found.
    """

    def __init__(self, gpu: Gpu, buffers: Mapping[int, Owned]) -> None:
        self._gpu, self._buffers = gpu, buffers
        self.waiting: set[int] = set()
        self.found: list[tuple[int, int]] = []

    def parts(self) -> dict[int, Part]:
        """Return where kernels may have reported since somebody looked, by number, and room for what stands there."""
        buffers = self._buffers
        found = {each: (buffers[each].handle, 0, memoryview(bytearray(REPORT_BYTES))) for each in self.waiting}
        self.waiting.clear()
        return found

    def keep(self, parts: Mapping[int, Part]) -> None:
        """Have those that hold anything read once more: what ran since may have reported there, too."""
        self.waiting |= {each for each, (_, _, data) in parts.items() if data.obj != _NOTHING}

    def take(self, parts: Mapping[int, Part]) -> None:
        """Keep what was read, and clear what held any, before anything else runs."""
        for handle, _, data in parts.values():
            # Bytes are compared at once, and views of them one by one.
            if data.obj == _NOTHING:
                continue
            self._gpu.write(handle, 0, _NOTHING)
            words = data.cast("i")
            told = (words[at : at + 3] for at in range(0, len(words), REPORT_WORDS) if words[at])
            self.found += [(code, (high << 32) | (low & 0xFFFFFFFF)) for code, low, high in told]
