"""Sobol' sequences, as ``torch.quasirandom``: points that fill a cube more evenly than random ones.

I. M. Sobol', "The distribution of points in a cube and the accurate evaluation of integrals", 1967; each coordinate's direction
numbers are those of S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional projections", SIAM J. Sci.
Comput. 30, 2008 (criterion D(6), 21201 dimensions); scrambling as in A. B. Owen, "Scrambling Sobol' and Niederreiter-Xing
points", J. Complexity 14, 1998, by random linear maps of the digits and a random shift.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Self

import webgpu_torch as torch
from webgpu_torch_core import Tensor

__all__ = ["SobolEngine"]

#: the initial numbers of each dimension but the first, packed: the i-th of them, from 1, is odd and below 2**i, and takes i - 1 bits
TABLE = Path(__file__).with_name("direction_numbers.bin")


def _multiplied(a: int, b: int, polynomial: int, degree: int) -> int:
    """Return a product of polynomials over the field of two elements, modulo another."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        b >>= 1
        a <<= 1
        if a >> degree & 1:
            a ^= polynomial
    return product


def _is_primitive(polynomial: int, degree: int) -> bool:
    """Return whether the powers of ``x`` modulo a polynomial are all that there are but zero."""
    order = 2**degree - 1

    def power(exponent: int) -> int:
        result, base = 1, 2 ^ polynomial if degree == 1 else 2
        while exponent:
            if exponent & 1:
                result = _multiplied(result, base, polynomial, degree)
            base = _multiplied(base, base, polynomial, degree)
            exponent >>= 1
        return result

    return power(order) == 1 and all(power(order // prime) != 1 for prime in _prime_factors(order))


def _prime_factors(number: int) -> list[int]:
    found = []
    divisor = 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            found.append(divisor)
            while number % divisor == 0:
                number //= divisor
        divisor += 1
    return [*found, number] if number > 1 else found


@cache
def _of_degree(degree: int) -> tuple[int, ...]:
    # The first and last coefficients are one; x**s is the bit s.
    candidates = (2**degree + 2 * middle + 1 for middle in range(2 ** (degree - 1)))
    # With an even number of terms a polynomial has the factor x + 1.
    return tuple(each for each in candidates if (degree == 1 or each.bit_count() % 2) and _is_primitive(each, degree))


def _primitive_polynomials() -> Iterator[tuple[int, int]]:
    """Yield (degree, polynomial) of the primitive polynomials over the field of two elements, in their order, as bits."""
    degree = 1
    while True:
        for each in _of_degree(degree):
            yield degree, each
        degree += 1


def _direction_numbers(dimension: int, bits: int) -> list[list[int]]:
    """Return, for each dimension, its direction numbers: the i-th, from 0, is an odd number times ``2 ** (bits - 1 - i)``."""
    table = TABLE.read_bytes()
    rows = [[1] * bits]
    place = 0
    for degree, polynomial in _primitive_polynomials():
        if len(rows) == dimension:
            break
        numbers = []
        for index in range(min(degree, bits)):
            first, last = place // 8, (place + index + 7) // 8
            packed = int.from_bytes(table[first:last], "little") >> (place % 8)
            numbers.append(2 * (packed & (2**index - 1)) + 1)
            place += index
        for index in range(degree, bits):
            new = numbers[index - degree] ^ (numbers[index - degree] << degree)
            for step in range(1, degree):
                if polynomial >> (degree - step) & 1:
                    new ^= numbers[index - step] << step
            numbers.append(new)
        rows.append(numbers)
    return [[number << (bits - 1 - index) for index, number in enumerate(row)] for row in rows[:dimension]]


class SobolEngine:
    """A Sobol' sequence of points in the unit cube.

    Args:
        dimension: how many coordinates a point has, at most 21201.
        scramble: draw a scrambled sequence.
        seed: what the scrambling is drawn by; the default generator without one.

    Raises:
        ValueError: there are no such dimensions.
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.sobolstate = torch.tensor(_direction_numbers(dimension, self.MAXBIT), dtype=torch.int64, device="cpu")
        self.shift = torch.zeros(dimension, dtype=torch.int64, device="cpu")
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """Return the next points, of shape ``[n, dimension]``.

        Args:
            n: how many.
            out: a tensor that takes them.
            dtype: their type, the default one if not given.
        """
        dtype = dtype or torch.get_default_dtype()
        first = [self._first_point.to(dtype)] if self.num_generated == 0 else []
        positions = torch.arange(self.num_generated + len(first), self.num_generated + n, device="cpu")
        points = self._points(positions)
        if len(positions):
            self.quasi = points[-1].clone()
        self.num_generated += n
        result = torch.cat([*first, points.to(dtype) * 2.0**-self.MAXBIT])
        return result if out is None else out.resize_as_(result).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """Return the next ``2 ** m`` points, of shape ``[2 ** m, dimension]``.

        Args:
            m: the exponent.
            out, dtype: see :meth:`draw`.

        Raises:
            ValueError: with them there would not be a power of two of points.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points have been "
                f"previously generated, then: n={self.num_generated}+2**{m}={total}. If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self) -> Self:
        """Begin again."""
        self.quasi = self.shift.clone()
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> Self:
        """Leave out the next points."""
        self.num_generated += n
        if self.num_generated > 0:
            self.quasi = self._points(torch.tensor([self.num_generated - 1], device="cpu"))[0].clone()
        return self

    def _points(self, positions: Tensor) -> Tensor:
        """Return the points at positions of the sequence, as integers: sums of the direction numbers of a Gray code's bits."""
        gray = positions ^ (positions >> 1)
        points = self.shift.expand(len(positions), self.dimension)
        for bit in range(self.MAXBIT):
            points = points ^ (((gray >> bit) & 1)[:, None] * self.sobolstate[:, bit])
        return points

    def _scramble(self) -> None:
        generator = None if self.seed is None else torch.Generator().manual_seed(self.seed)
        bits = self.MAXBIT
        shifts = torch.randint(2, (self.dimension, bits), device="cpu", generator=generator)
        powers = 2 ** torch.arange(bits, device="cpu")
        self.shift = (shifts * powers).sum(-1)
        maps = torch.randint(2, (self.dimension, bits, bits), device="cpu", generator=generator).tril()
        maps.diagonal(0, -2, -1).fill_(1)
        rows = (maps * powers.flip(0)).sum(-1)
        state = torch.zeros_like(self.sobolstate)
        for row in range(bits):
            # The parity of the digits that the map's row takes is the digit of its place.
            digit = rows[:, row, None] & self.sobolstate
            for step in (16, 8, 4, 2, 1):
                digit = digit ^ (digit >> step)
            state = state | ((digit & 1) << (bits - 1 - row))
        self.sobolstate = state

    def __repr__(self) -> str:
        parts = [f"dimension={self.dimension}", *(["scramble=True"] if self.scramble else [])]
        return f"SobolEngine({', '.join([*parts, *([f'seed={self.seed}'] if self.seed is not None else [])])})"
