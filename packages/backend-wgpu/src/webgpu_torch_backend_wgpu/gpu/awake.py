"""Work for a card that would have nothing to do while others compile for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .interface import DISPATCH, GpuError, PipelineRequest

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .header import HeaderGpu

#: seconds that a card may have nothing to do while others compile
_PATIENCE = 0.02
#: what it does then: a fraction of a millisecond for all of its units, since a clock follows the share of time that has work
_SOURCE = """
@group(0) @binding(0) var<storage, read_write> numbers: array<u32, 64>;
@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) thread: u32) {
  var number = numbers[thread];
  for (var i = 0u; i < 100000u; i++) { number = number * 1664525u + 1013904223u; }
  numbers[thread] = number;
}
"""
_WORKGROUPS = 512


class Awake:
    """Keeps a card's clock up: one that has nothing to do for a third of a second runs at half of it, and for a second after it
    has work again.
    """

    def __init__(self, gpu: HeaderGpu) -> None:
        self._gpu = gpu
        self._recording: int | None = None

    def until(self, waiting: Sequence[Future[object]]) -> None:
        """Give the GPU something to do until others have compiled."""
        from concurrent.futures import wait

        gpu = self._gpu
        left = wait(waiting, _PATIENCE).not_done
        if left and self._recording is None and gpu.lost is None:
            self._recording = self._made()
        while left and gpu.lost is None:
            assert self._recording is not None
            # What comes after the compilation waits for one of these, not for a queue of them.
            gpu.run_alone(self._recording)
            left = wait(left, 0).not_done

    def _made(self) -> int:
        gpu = self._gpu
        layout = gpu.layout(("storage",))
        pipeline = gpu.pipeline_beside(PipelineRequest("awake", _SOURCE, layout, True))
        if isinstance(pipeline, GpuError):
            raise pipeline
        group = gpu.group(layout, [(gpu.buffer(256), 0, 256)])
        return gpu.record([DISPATCH, pipeline, group, _WORKGROUPS, 1, 1])
