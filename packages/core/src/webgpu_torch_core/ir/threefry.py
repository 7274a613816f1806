"""Threefry4x32-13, the counter-based random generator of devices, in readable form.

A block of four random words is a pure function of a counter and a key, so every thread computes its own. It takes additions,
rotations and exclusive ors of 32-bit words only: WGSL has no product of two words that keeps its high half, which the generators
with products would have to put together from parts. Thirteen rounds are one more than the fewest that pass BigCrush.
Source: J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11.
"""

from __future__ import annotations

ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
"""By how many bits the two mixes of a round rotate; after the last row comes the first again."""

PARITY = 0x1BD11BDA
"""The fifth word of the key is this one and the others, by exclusive or."""

ROUNDS = 13
#: rounds after which the key is added again
INJECTION = 4

_MASK = 0xFFFFFFFF

Words = tuple[int, int, int, int]


def threefry4x32(counter: Words, key: Words) -> Words:
    """Return the four random words of a block, thirteen rounds over ``counter`` with ``key`` (32-bit words all).

    Raises ValueError when a word does not fit in 32 bits.
    """
    for word in (*counter, *key):
        if not 0 <= word <= _MASK:
            raise ValueError(f"threefry4x32 takes 32-bit words, got {word} in counter={counter}, key={key}")
    keys = (*key, PARITY ^ key[0] ^ key[1] ^ key[2] ^ key[3])
    a, b, c, d = ((word + each) & _MASK for word, each in zip(counter, key, strict=True))
    for number in range(ROUNDS):
        first, second = ROTATIONS[number % len(ROTATIONS)]
        a, b, c, d = _mixed(a, b, c, d, first, second)
        if (number + 1) % INJECTION == 0:
            times = (number + 1) // INJECTION
            added = [keys[(times + each) % len(keys)] for each in range(4)]
            a, b, c, d = ((word + each) & _MASK for word, each in zip((a, b, c, d + times), added, strict=True))
    # After an odd number of rounds they have changed places.
    return (a, d, c, b) if ROUNDS % 2 else (a, b, c, d)


def _mixed(a: int, b: int, c: int, d: int, first: int, second: int) -> Words:
    a, c = (a + b) & _MASK, (c + d) & _MASK
    # What is rotated changes places: the next round mixes it with the other sum.
    return a, _rotated(d, second) ^ c, c, _rotated(b, first) ^ a


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> (32 - bits)) & _MASK
