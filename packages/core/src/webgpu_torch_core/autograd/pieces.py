"""Gradients of parts of one tensor: put side by side instead of padded with zeros and added.

The gradient of a slice is one of the whole tensor that is zero elsewhere. A loop over the places of a sequence sends as many of
them as there are places, and adding them takes the square of their number. What does not overlap only has to be joined.
"""

from __future__ import annotations

from ..operations.indexing.parts import Place, place_of_part
from ..operations.movement.joining import cat
from ..tensors.tensor import Tensor

#: padded gradients that are added as they are: one kernel reads so few
FEW = 3


class Pieces:
    """Gradients of one tensor, of which some are parts that lie apart along one dimension.

    Attributes:
        padded: the gradients of the parts, as long as there are few.
        places: the parts by where they start and end.
        rest: the sum of all other gradients, None if there was none.
    """

    def __init__(self, first: Tensor, place: Place, rest: Tensor | None = None) -> None:
        self.padded = [first]
        self.places = {(place.start, place.stop): place}
        self.dim, self.dtype = place.dim, place.part.dtype
        self.rest = rest

    def add(self, gradient: Tensor) -> None:
        """Add a gradient."""
        place = place_of_part(gradient)
        if place is None or place.dim != self.dim or place.part.dtype is not self.dtype:
            self._add_to_rest(gradient)
            return
        run = place.start, place.stop
        same = self.places.get(run)
        if same is not None:
            place = place._replace(part=same.part + place.part)
        elif any(place.start < stop and start < place.stop for start, stop in self.places):
            self._add_to_rest(gradient)
            return
        self.places[run] = place
        # Where there are many nobody needs their padded ones, and what nobody needs is not computed.
        self.padded = [*self.padded, gradient][: FEW + 1]

    def _add_to_rest(self, gradient: Tensor) -> None:
        self.rest = gradient if self.rest is None else self.rest + gradient

    def total(self) -> Tensor:
        """Return the sum of the gradients."""
        total = self._joined() if len(self.padded) > FEW else self.padded[0]
        if len(self.padded) <= FEW:
            for each in self.padded[1:]:
                total = total + each
        return total if self.rest is None else self.rest + total

    def _joined(self) -> Tensor:
        """Return the parts side by side, with zeros between them."""
        whole, dim, end = self.padded[0]._layout.shape, self.dim, 0
        parts: list[Tensor] = []
        for (start, stop), place in sorted(self.places.items(), key=lambda each: each[0]):
            if start > end:
                parts.append(place.part.new_zeros((*whole[:dim], start - end, *whole[dim + 1 :])))
            parts.append(place.part)
            end = stop
        if end < whole[dim]:
            parts.append(parts[-1].new_zeros((*whole[:dim], whole[dim] - end, *whole[dim + 1 :])))
        return cat(parts, dim)
