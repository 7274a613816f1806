"""What was said when: the segments of a text with Whisper's tokens for times (Radford et al., 2022, section 2.3)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple


class Segment(NamedTuple):
    """Tokens between two times, which are counted in steps of the network's positions."""

    start: int
    end: int
    tokens: list[int]


def segments_of(tokens: Sequence[int], first: int, length: int) -> tuple[list[Segment], int]:
    """Return the segments of what was written of a window, and up to which step they say all there is.

    Two times side by side end a segment and start the next one. What comes after the last such pair is cut off in the middle,
    and heard again in the next window, unless a time alone ends the text.

    Args:
        tokens: without the one that ends the text.
        first: the token of the time zero.
        length: of the window, in steps.
    """
    cuts = [number + 1 for number, (one, other) in enumerate(itertools.pairwise(tokens)) if min(one, other) >= first]
    if not cuts:
        times = [each - first for each in tokens if each >= first]
        return [Segment(0, times[-1] if times and times[-1] else length, list(tokens))], length
    is_whole = tokens[-1] >= first > tokens[-2]
    bounds = [*cuts, len(tokens)] if is_whole else cuts
    found = [
        Segment(max(0, tokens[start] - first), tokens[end - 1] - first, list(tokens[start:end]))
        for start, end in itertools.pairwise([0, *bounds])
    ]
    return found, length if is_whole else tokens[cuts[-1] - 1] - first
