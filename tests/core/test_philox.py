"""Philox against the known answers published with the Random123 library."""

from __future__ import annotations

import pytest
from webgpu_torch_core.ir.philox import philox4x32, philox_block, split64

KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), KNOWN_ANSWERS)
def test_known_answers(counter, key, expected):
    assert philox4x32(counter, key) == expected


def test_block_is_the_counter_of_both_numbers():
    assert philox_block(0x299F31D0A4093822, 0x85A308D3243F6A88, 0x0370734413198A2E) == KNOWN_ANSWERS[2][2]
    assert philox_block(-1, -1, -1) == KNOWN_ANSWERS[1][2]
    assert split64(-1) == (0xFFFFFFFF, 0xFFFFFFFF)


def test_words_beyond_32_bits_are_refused():
    with pytest.raises(ValueError, match="32-bit"):
        philox4x32((1 << 32, 0, 0, 0), (0, 0))
