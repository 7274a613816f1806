"""What a driver does where WebGPU leaves it open, and how fast it is: what its self-test found out. Nothing is guessed from names."""

from __future__ import annotations

from typing import TypeAlias

from webgpu_torch_core.ir.records import Record

#: units, and how fast they compute, copy, let the driver copy and are dispatched to, as facts have it
Speed: TypeAlias = tuple[int, float, float, float, float]


class Facts(Record):
    """What the self-test found out.

    Attributes:
        rounds_halves: conversion to float16 rounds to nearest even.
        packs_halves: so does packing as float16, subnormal results and infinity included, and what is unpacked is rounded.
        keeps_subnormals: subnormal float32 numbers are not flushed to zero.
        tells_nan: ``x != x`` holds for NaN.
        remainders: ``%`` of negative int32 numbers has the dividend's sign, as WGSL says.
        fuses: ``fma`` rounds once, which WGSL leaves open.
        keeps_rests: what packing as float16 leaves of a number is computed: it is not taken for 0, as drivers do that leave out
            unpacking what was just packed.
        orders_subgroups: a subgroup is as many threads of a workgroup as its size tells, one after another, which WGSL leaves open.
        units: how many workgroups run side by side at full speed.
        flops: float32 operations per second of all units.
        bandwidth: bytes per second read and written by a kernel that copies.
        copies: bytes per second read and written by the driver's copies between buffers.
        dispatch: seconds a dispatch takes that has nothing to do.
        dots: products of four signed bytes each that are summed per second; 0 where there is no such instruction.
        products: operations per second of matrix units that multiply halves and sum them in float32; 0 where there are none.
    """

    __slots__ = fields = (
        "rounds_halves", "packs_halves", "keeps_subnormals", "tells_nan", "remainders", "fuses", "keeps_rests",
        "orders_subgroups", "units", "flops", "bandwidth", "copies", "dispatch", "dots", "products",
    )  # fmt: skip
    rounds_halves: bool
    packs_halves: bool
    keeps_subnormals: bool
    tells_nan: bool
    remainders: bool
    fuses: bool
    keeps_rests: bool
    orders_subgroups: bool
    units: int
    flops: float
    bandwidth: float
    copies: float
    dispatch: float
    dots: float
    products: float

    @property
    def threads(self) -> int:
        """Threads that fill all units: below it, more threads for the same work pay. A power of two."""
        return 1 << ((self.units * 1024).bit_length() - 1)


#: what is assumed of an adapter that computes nothing, by its kind, and, but for subgroups, of one whose self-test failed; each is on
#: the safe side
TYPICAL = {
    "discrete": Facts(True, False, False, False, False, False, False, True, 132, 50e12, 3e12, 3e12, 5e-6, 1e13, 5e14),
    "integrated": Facts(False, False, False, False, False, False, False, True, 16, 2e12, 6e10, 6e10, 2e-5, 4e11, 8e12),
    "cpu": Facts(False, False, False, False, False, False, False, True, 4, 1e11, 1e10, 1e10, 5e-5, 2e9, 0.0),
}
