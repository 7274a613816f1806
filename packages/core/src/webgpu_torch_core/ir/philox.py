"""Philox4x32-10, the counter-based random generator of devices, in readable form.

A block of four random words is a pure function of a counter and a key, so every thread computes its own.
Source: J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
"""

from __future__ import annotations

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
"""What each round adds to the key: the golden ratio and ``sqrt(3) - 1``, as 32-bit fractions."""

ROUNDS = 10

_MASK = 0xFFFFFFFF


def philox4x32_round(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return one round: two 32 x 32 -> 64 bit products, whose halves are mixed with the other words and the key."""
    product_0 = MULTIPLIERS[0] * counter[0]
    product_1 = MULTIPLIERS[1] * counter[2]
    return (
        (product_1 >> 32) ^ counter[1] ^ key[0],
        product_1 & _MASK,
        (product_0 >> 32) ^ counter[3] ^ key[1],
        product_0 & _MASK,
    )


def philox4x32(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return the four random words of a block, ten rounds over ``counter`` with ``key`` (32-bit words all).

    Raises ValueError when a word does not fit in 32 bits.
    """
    for word in (*counter, *key):
        if not 0 <= word <= _MASK:
            raise ValueError(f"philox4x32 takes 32-bit words, got {word} in counter={counter}, key={key}")
    for _ in range(ROUNDS):
        counter = philox4x32_round(counter, key)
        key = ((key[0] + WEYL[0]) & _MASK, (key[1] + WEYL[1]) & _MASK)
    return counter


def split64(value: int) -> tuple[int, int]:
    """Return the low and the high 32 bits of an unsigned 64-bit number, the order of keys and counters."""
    return value & _MASK, value >> 32 & _MASK


def philox_block(seed: int, offset: int, subsequence: int = 0) -> tuple[int, int, int, int]:
    """Return block ``offset`` of stream ``subsequence`` of ``seed``: the key is the seed, the counter both numbers.

    Seeds, offsets and subsequences are unsigned 64-bit numbers; a negative one counts down from ``2**64``.
    """
    return philox4x32((*split64(offset), *split64(subsequence)), split64(seed))
