"""Threefry against the known answers published with the Random123 library."""

from __future__ import annotations

import pytest
from webgpu_torch_core.ir.threefry import threefry4x32

# kat_vectors, threefry4x32 13: counter, key, answer.
KNOWN_ANSWERS = [
    ((0,) * 4, (0,) * 4, (0x531C7E4F, 0x39491EE5, 0x2C855A92, 0x3D6ABF9A)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 4, (0xC4189358, 0x1C9CC83A, 0xD5881C67, 0x6A0A89E0)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89),
        (0x4AA71D8F, 0x734738C2, 0x431FC6A8, 0xAE6DEBF1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_known_answers(counter, key, expected):
    assert threefry4x32(counter, key) == expected


def test_words_beyond_32_bits_are_refused():
    with pytest.raises(ValueError, match="32-bit"):
        threefry4x32((1 << 32, 0, 0, 0), (0, 0, 0, 0))
