"""Maps from indices to samples."""

from __future__ import annotations

import copy as copying
from collections.abc import Callable, Mapping, Sequence

from .datapipe import MapDataPipe, functional_datapipe


class SequenceWrapper(MapDataPipe):
    """The samples of a sequence, copied first unless ``deepcopy`` is false."""

    def __init__(self, sequence: Sequence[object] | Mapping[object, object], deepcopy: bool = True) -> None:
        self.sequence = copying.deepcopy(sequence) if deepcopy else sequence

    def __getitem__(self, index: object) -> object:
        return self.sequence[index]  # type: ignore[index]

    def __len__(self) -> int:
        return len(self.sequence)


@functional_datapipe("map")
class MapMapper(MapDataPipe):
    """A function of each sample."""

    def __init__(self, datapipe: MapDataPipe, fn: Callable[[object], object]) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: object) -> object:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)  # type: ignore[arg-type]
