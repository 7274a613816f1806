"""Numbers of four bits as an exported folder's files hold them, read once more."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float32]


def from_blocks(blocks: npt.NDArray[np.uint8]) -> Numbers:
    """Return the numbers of blocks [count, 20] as float32 [count, 32]."""
    pairs = blocks[:, :4].copy().view(np.float16).astype(np.float32)
    codes = np.stack([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], -1).reshape(-1, 32)
    return codes * pairs[:, :1] + pairs[:, 1:]
