"""The self-test by which the facts about a driver are found out: small kernels at the first start with an adapter and driver.

Later processes read its results from the disk cache.
"""

from __future__ import annotations

import math
import os
import struct
import sys
import time
from collections.abc import Sequence
from typing import TypeVar

from .disk_cache import DiskCache
from .facts import TYPICAL, Facts, Speed
from .functions.conversion import PACKED_HALVES
from .gpu.interface import (
    COPY,
    DISPATCH,
    MATRIX_FEATURE,
    MATRIX_HEAD,
    UNIFORM,
    Adapter,
    Gpu,
    GpuError,
    MatrixUnit,
    Owned,
    PipelineRequest,
    largest_unit,
)

Number = TypeVar("Number", int, float)

#: what every kernel of the self-test reads and writes
_BINDINGS = """
@group(0) @binding(0) var<storage, read> given: array<u32>;
@group(0) @binding(1) var<storage, read_write> found: array<u32>;
@group(0) @binding(2) var<uniform> work: vec4<u32>;
"""
_NUMERICS = (
    "{enable}\n{rounded}"
    + _BINDINGS
    + """@compute @workgroup_size(1)
fn main() {{
  let nan = bitcast<f32>(given[0]);
  found[0] = select(0u, 1u, nan != nan);
  found[1] = bitcast<u32>(bitcast<f32>(given[1]) * 2.0f);
  found[2] = bitcast<u32>(bitcast<i32>(given[2]) % bitcast<i32>(given[3]));
  for (var i = 0u; i < {packed}u; i += 1u) {{
    let x = bitcast<f32>(given[8u + i]);
    found[7u + 2u * i] = pack2x16float(vec2<f32>(x, 0.0f));
    found[8u + 2u * i] = bitcast<u32>(wt_half_rounded(x));
  }}
  for (var i = 0u; i < {fused}u; i += 1u) {{
    let at = 8u + {packed}u + 3u * i;
    let value = fma(bitcast<f32>(given[at]), bitcast<f32>(given[at + 1u]), bitcast<f32>(given[at + 2u]));
    found[7u + 2u * {packed}u + i] = bitcast<u32>(value);
  }}
  let at = 8u + {packed}u + 3u * {fused}u;
  let pair = vec2<f32>(bitcast<f32>(given[at]), bitcast<f32>(given[at + 1u]));
  let rests = pair - unpack2x16float(pack2x16float(pair) ^ (0u - (given[0] >> 31u)));
  found[7u + 2u * {packed}u + {fused}u] = bitcast<u32>(rests.x);
  found[8u + 2u * {packed}u + {fused}u] = bitcast<u32>(rests.y);
  {halves}
}}
"""
)
#: numbers, and what they convert to in float16: a tie to even, one just above a tie, and one that lies below one
_HALVES = ((1.00048828125, 0x3C00), (1.00146484375, 0x3C02), (2049.25, 0x6801), (2048.9, 0x6800))

#: what packing must round right, too: both signs of ties, subnormal results, what rounds to the largest number or beyond it
_PACKED = tuple(
    sign * each
    for sign in (1.0, -1.0)
    for each in (
        0.0, 1.0, 1.00048828125, 1.00146484375, 2049.25, 2048.9, 0.1, 65504.0, 65519.996, 65520.0, 1e6, math.inf, 6.1e-5,
        6.103515625e-05, 5.960464477539063e-08, 8.940696716308594e-08, 2.9802322387695312e-08, 2.98023259404089e-08, 1e-10,
    )
)  # fmt: skip

#: factors and addends of sums of which nothing is left where the product is rounded first, and what is left where it is not
_FUSED = (
    (1 + 2**-12, 1 + 2**-12, -1 - 2**-11, 2**-24),
    (1 + 2**-23, 1 - 2**-23, -1.0, -(2**-46)),
    (3.0, 11184811 * 2**-25, -1.0, 2**-25),
)

#: numbers that leave something when they are rounded to halves
_LEAVING = (0.3333333432674408, -1000.4000244140625)

#: how a kernel begins whose speed is measured
_THREADS = (
    _BINDINGS
    + """@compute @workgroup_size({threads})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {{
"""
)
_SPEED = (
    _THREADS
    + """  let a = bitcast<f32>(given[0]);
  var x = vec4<f32>(f32(thread), 1.0f, 2.0f, 3.0f);
  var y = vec4<f32>(f32(group.x), 4.0f, 5.0f, 6.0f);
  for (var i = 0u; i < work.x; i += 1u) {{
    x = fma(x, vec4<f32>(a), y); y = fma(y, vec4<f32>(a), x);
    x = fma(x, vec4<f32>(a), y); y = fma(y, vec4<f32>(a), x);
  }}
  for (var i = group.x * {threads}u + thread; i < work.y; i += work.z) {{ found[i + 16u] = given[i] + 1u; }}
  if (dot(x, y) == 12345.0f) {{ found[15] = 1u; }}
}}
"""
)
#: float operations of one round of the loop, by thread
_OPERATIONS = 4 * 4 * 2
#: products of packed bytes
_DOTS = (
    _THREADS
    + """  let a = given[0] ^ thread;
  var x = vec4<i32>(vec4<u32>(thread, 1u, 2u, group.x));
  for (var i = 0u; i < work.x; i += 1u) {{
    {products}
  }}
  if (x.x + x.y + x.z + x.w == 12345) {{ found[15] = 1u; }}
}}
"""
)
#: what one round of the loop does, and how many products these are
_SUMS_OF_DOTS = "".join(
    f"x.{lane} += dot4I8Packed(bitcast<u32>(x.{other}), a); " for lane, other in ("xy", "yz", "zw", "wx") * 4
)
_PRODUCTS = 16
#: whether subgroups are threads one after another
_SUBGROUPS = (
    "{enable}\n"
    + _BINDINGS
    + """@compute @workgroup_size({threads})
fn main(
  @builtin(local_invocation_index) thread: u32, @builtin(subgroup_invocation_id) lane: u32, @builtin(subgroup_size) size: u32
) {{
  let first = subgroupBroadcastFirst(thread);
  let other = subgroupShuffleXor(thread, 1u);
  found[thread] = select(0u, 1u, size == work.x && lane == thread % size && first == thread - lane && other == (thread ^ 1u));
}}
"""
)
#: threads of which that is looked at: as many as every adapter runs in a workgroup
_ORDERED = 128
#: products of matrices of halves: four sums, none of which waits for another
_MATRICES = (
    "enable f16;\n"
    + MATRIX_HEAD
    + _BINDINGS
    + """var<workgroup> numbers: array<f16, {size}>;
@compute @workgroup_size({threads})
fn main(@builtin(local_invocation_index) thread: u32) {{
  numbers[thread % {size}u] = f16(given[thread % 16u] & 1u);
  workgroupBarrier();
  let left = subgroupMatrixLoad<subgroup_matrix_left<f16, {k}, {m}>, row_major>(&numbers, 0u, {k}u);
  let right = subgroupMatrixLoad<subgroup_matrix_right<f16, {n}, {k}>, row_major>(&numbers, 0u, {n}u);
  {declared}
  for (var i = 0u; i < work.x; i += 1u) {{
    {products}
  }}
  if (work.w == 12345u) {{
    {stores}
  }}
}}
"""
)
_MATRIX_SUMS = 4
#: seconds of the shortest measurement that is believed, and words that a copy moves: more than caches hold
_LEAST, _WORDS = 2e-3, 1 << 24
#: copies that are measured together
_COPIES = 8
#: from how many times as long on, workgroups are said to wait for others
_WAITING = 1.5
#: workgroups and rounds of the load that wakes a GPU; seconds that it lasts at least, since clocks may stay low for a second
#: and then rise at once; for which it must not have become faster by more than this share; and after which it is measured as it is
_LOAD, _LOAD_ROUNDS, _WAKING, _STEADY, _FASTER, _PATIENCE = 512, 1024, 1.5, 0.3, 0.02, 4.0
#: by what share the first measurement may differ when it is made again at the end, and how often all are made until it does not
_DRIFT, _ATTEMPTS = 0.08, 5


def known_facts(gpu: Gpu, adapter: Adapter, measures: bool) -> Facts:
    """Return the facts about an adapter: remembered, measured now, or typical of its kind where that fails."""
    typical = TYPICAL.get(adapter.kind, TYPICAL["integrated"])
    if not measures:
        return typical
    cache = DiskCache("facts", f"{adapter.vendor}-{adapter.device}", f"{adapter.description}-{adapter.api}")
    found = _remembered(cache.get(_VERSION))
    if found is None:
        try:
            unit = largest_unit(adapter.matrix_units) if MATRIX_FEATURE in gpu.features else None
            subgroup = adapter.subgroup_size if "subgroups" in gpu.features else 0
            found = _Test(gpu, typical, adapter.kind == "cpu", unit, subgroup).run()
        except GpuError:
            # It must not keep anybody from computing; what is wrong will be said when a kernel is refused.
            return typical.replace(orders_subgroups=False, dots=0.0, products=0.0)
        cache.put(_VERSION, {name: getattr(found, name) for name in Facts.fields})
    return found


#: the key of the self-test's results; changes with the test
_VERSION = "self-test 11"


def _remembered(value: object) -> Facts | None:
    """Return the facts in a value of the cache, or None where it is damaged."""
    if not isinstance(value, dict) or set(value) != set(Facts.fields):
        return None
    kinds = (*[bool] * 8, int, *[float] * 6)
    for name, kind in zip(Facts.fields, kinds, strict=True):
        least = 0 if name in ("dots", "products") else 1e-30
        if type(value[name]) is not kind or (kind is not bool and not least <= value[name] < 1e30):
            return None
    return Facts(**value)


def _sane(measured: Number, typical: Number, factor: float) -> Number:
    """Return what was measured unless it is further than a factor from what is typical."""
    return measured if typical / factor <= measured <= typical * factor else typical


def _packed(number: float) -> bytes:
    """Return the bits that a float32 number has as float16, and then as float32 again, as 32-bit words."""
    try:
        half = struct.pack("<e", struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        half = struct.pack("<e", math.copysign(math.inf, number))
    return half + b"\0\0" + struct.pack("<f", struct.unpack("<e", half)[0])


class _Test:
    """The self-test on one device; ``software``: threads of the host compute, whose speed others' work decides; ``unit``: a product
    of its matrix units; ``subgroup``: threads of a subgroup, 0 where none are used."""

    def __init__(
        self, gpu: Gpu, typical: Facts, software: bool, unit: MatrixUnit | None = None, subgroup: int = 0
    ) -> None:
        self.gpu = gpu
        self.unit, self.subgroup = unit, subgroup
        self.typical = typical
        self.software = software
        # As many as there may be: one workgroup is to fill a unit.
        self.threads = min(
            1024, gpu.limits.max_compute_invocations_per_workgroup, gpu.limits.max_compute_workgroup_size_x
        )
        # Software takes its time to make large buffers, and needs none.
        self.words = 128 if software else _WORDS
        self.given, self.found, self.work = (
            gpu.own(gpu.buffer(4 * self.words)),
            gpu.own(gpu.buffer(4 * self.words + 64)),
            gpu.own(gpu.buffer(256, UNIFORM)),
        )
        self.layout = gpu.layout(("read-only-storage", "storage", "uniform"))
        entries = [
            (self.given.handle, 0, 4 * self.words),
            (self.found.handle, 0, 4 * self.words + 64),
            (self.work.handle, 0, 256),
        ]
        self.group = gpu.own(gpu.group(self.layout, entries))

    def run(self) -> Facts:
        """Return what was found out.

        Raises:
            GpuError: the implementation refused the test.
        """
        halves = "shader-f16" in self.gpu.features
        lines = [
            f"found[{3 + n}] = pack2x16float(vec2<f32>(f32(f16(bitcast<f32>(given[{4 + n}]))), 0.0f));"
            for n in range(4)
        ]
        numerics = _NUMERICS.format(
            enable="enable f16;" if halves else "",
            rounded=PACKED_HALVES[1].source,
            halves="\n  ".join(lines) if halves else "",
            packed=len(_PACKED),
            fused=len(_FUSED),
        )
        speeds = [] if self.software else [_SPEED.format(threads=self.threads)]
        extensions = {"dots": _DOTS.format(threads=self.threads, products=_SUMS_OF_DOTS)}
        if self.subgroup:
            enable = "enable subgroups;" if self.gpu.enables_subgroups else ""
            extensions["subgroups"] = _SUBGROUPS.format(enable=enable, threads=_ORDERED)
        if self.unit is not None:
            extensions["matrices"] = self._matrices(self.unit)
        sources = [numerics, *speeds, *extensions.values()]
        made = self.gpu.pipelines([PipelineRequest("self-test", each, self.layout, False) for each in sources])
        # Products of packed bytes and of matrices, and subgroups, are extensions of the language, which are all that may be refused.
        first = len(sources) - len(extensions)
        extended = {
            name: self.gpu.own(each)
            for name, each in zip(extensions, made[first:], strict=True)
            if not isinstance(each, GpuError)
        }
        owners: list[Owned] = []
        for each in made[:first]:
            if isinstance(each, GpuError):
                raise each
            owners.append(self.gpu.own(each))
        typical = self.typical
        # Python in a page is told of one processor, whatever the browser's GPU process has.
        processors = typical.units if sys.platform == "emscripten" else os.cpu_count() or 1
        speed = processors, typical.flops, typical.bandwidth, typical.copies, typical.dispatch
        dots = typical.dots if "dots" in extended else 0.0
        products = 0.0
        if not self.software:
            speed = self._speed(owners[1])
            dots = self._rate(extended["dots"], _PRODUCTS * self.threads, dots, speed) if dots else 0.0
            if "matrices" in extended and self.unit is not None:
                unit = self.unit
                each = 2 * unit.m * unit.n * unit.k * _MATRIX_SUMS * (self.threads // unit.threads)
                products = self._rate(extended["matrices"], each, typical.products, speed)
        ordered = "subgroups" in extended and self._ordered(extended["subgroups"])
        return Facts(*self._numerics(owners[0], halves), ordered, *speed, dots, products)

    def _ordered(self, pipeline: Owned) -> bool:
        """Return whether subgroups are threads one after another."""
        self.gpu.write(self.work.handle, 0, struct.pack("<4I", self.subgroup, 0, 0, 0))
        self._submit(pipeline, 1)
        result = bytearray(4 * _ORDERED)
        self.gpu.read(self.found.handle, 0, memoryview(result))
        return result == struct.pack("<I", 1) * _ORDERED

    def _matrices(self, unit: MatrixUnit) -> str:
        """Return the text that has matrix units multiply."""
        kind = f"subgroup_matrix_result<f32, {unit.n}, {unit.m}>"
        sums = [f"sum{number}" for number in range(_MATRIX_SUMS)]
        return _MATRICES.format(
            size=max(unit.m, unit.n) * unit.k, threads=self.threads, m=unit.m, n=unit.n, k=unit.k,
            declared=" ".join(f"var {each}: {kind};" for each in sums),
            products=" ".join(f"{each} = subgroupMatrixMultiplyAccumulate(left, right, {each});" for each in sums),
            stores=" ".join(f"subgroupMatrixStore<row_major>(&found, 16u, {each}, {unit.n}u);" for each in sums),
        )  # fmt: skip

    def _numerics(self, pipeline: Owned, halves: bool) -> tuple[bool, bool, bool, bool, bool, bool, bool]:
        factors = (part for *parts, _ in _FUSED for part in parts)
        given = [*(each for each, _ in _HALVES), *_PACKED, *factors, *_LEAVING]
        numbers = struct.pack(f"<IIii{len(given)}f", 0x7FC00000, 0x00000100, -7, 2, *given)
        self.gpu.write(self.given.handle, 0, numbers)
        self._submit(pipeline, 1)
        packed = 28 + 8 * len(_PACKED)
        fused = packed + 4 * len(_FUSED)
        result = bytearray(fused + 4 * len(_LEAVING))
        self.gpu.read(self.found.handle, 0, memoryview(result))
        nan, subnormal, remainder, *rounded = struct.unpack_from("<7I", result)
        nearest = halves and all(each & 0xFFFF == right for each, (_, right) in zip(rounded, _HALVES, strict=True))
        packs = result[28:packed] == b"".join(_packed(each) for each in _PACKED)
        fuses = result[packed:fused] == struct.pack(f"<{len(_FUSED)}f", *(left for *_, left in _FUSED))
        near = struct.unpack("<2e", struct.pack("<2e", *_LEAVING))
        rests = result[fused:] == struct.pack("<2f", *(each - half for each, half in zip(_LEAVING, near, strict=True)))
        return nearest, packs, subnormal == 0x200, nan == 1, remainder == 0xFFFFFFFF, fuses, rests

    def _warm_up(self, pipeline: Owned) -> None:
        """Keep the GPU busy until it does not become faster any more.

        One that saved energy raises its clocks over a second, or after one; what is measured meanwhile does not go together.
        """
        began = steady = time.perf_counter()
        best = math.inf
        while (now := time.perf_counter()) - began < _WAKING or (now - steady < _STEADY and now - began < _PATIENCE):
            seconds = self._seconds(pipeline, _LOAD, _LOAD_ROUNDS, 0)
            if seconds < best * (1 - _FASTER):
                best, steady = seconds, time.perf_counter()

    def _speed(self, pipeline: Owned) -> Speed:
        self._warm_up(pipeline)
        for _ in range(_ATTEMPTS):
            found, drift = self._measured(pipeline)
            if drift < _DRIFT:
                break
        return found

    def _measured(self, pipeline: Owned) -> tuple[Speed, float]:
        """Return units, rates and the time of a dispatch, and by what share the first measurement differs from the last."""
        dispatch = min(self._seconds(pipeline, 1, 0, 0) for _ in range(5))
        rounds, one = self._long_enough(pipeline, 1, dispatch)
        one = max(min(one, self._seconds(pipeline, 1, rounds, 0)) - dispatch, 1e-9)

        def takes(groups: int) -> float:
            return max(min(self._seconds(pipeline, groups, rounds, 0) for _ in range(2)) - dispatch, 1e-9)

        units, beyond = 1, 4
        while beyond < 1 << 14 and takes(beyond) < _WAITING * one:
            units, beyond = beyond, beyond * 4
        while beyond - units > 1:
            middle = (units + beyond) // 2
            units, beyond = (middle, beyond) if takes(middle) < _WAITING * one else (units, middle)
        flops = units * _OPERATIONS * rounds * self.threads / takes(units)
        copied = max(min(self._seconds(pipeline, 256, 0, _WORDS) for _ in range(3)) - dispatch, 1e-9)
        drift = abs(math.log(takes(1) / one))
        # A clock that is too coarse, or a machine too busy, gives nonsense; then the typical value is the better one.
        typical = self.typical
        speeds = (
            _sane(units, typical.units, 100),
            _sane(flops, typical.flops, 1000),
            _sane(8 * _WORDS / copied, typical.bandwidth, 1000),
            _sane(8 * _WORDS / self._copying(), typical.copies, 1000),
            _sane(max(dispatch, 1e-7), typical.dispatch, 100),
        )
        return speeds, drift

    def _rate(self, pipeline: Owned, each: int, typical: float, speed: Speed) -> float:
        """Return what all units do per second of which a workgroup does ``each`` in a round."""
        units, dispatch = speed[0], speed[-1]
        rounds, _ = self._long_enough(pipeline, units, dispatch)
        seconds = max(min(self._seconds(pipeline, units, rounds, 0) for _ in range(3)) - dispatch, 1e-9)
        return _sane(units * each * rounds / seconds, typical, 1000)

    def _long_enough(self, pipeline: Owned, groups: int, dispatch: float) -> tuple[int, float]:
        """Return how many rounds take so long that they can be measured, and how long they took."""
        rounds, least = 64, max(_LEAST, 4 * dispatch)
        while (seconds := self._seconds(pipeline, groups, rounds, 0)) < least and rounds < 1 << 20:
            rounds *= 4
        return rounds, seconds

    def _copying(self) -> float:
        """Return the time in which the driver copies :attr:`_WORDS` words: of several copies, as only the host's clock tells."""
        copy = (COPY, self.given.handle, 0, self.found.handle, 0, 4 * _WORDS)
        return max(self._elapsed(copy * _COPIES) - self._elapsed(()), 1e-9) / _COPIES

    def _elapsed(self, commands: Sequence[int]) -> float:
        """Return the time from a submit until the host knows that it is done."""
        gpu = self.gpu
        recording = gpu.own(gpu.record(commands))
        gpu.wait()
        start = time.perf_counter()
        gpu.submit(recording.handle)
        gpu.wait()
        seconds = time.perf_counter() - start
        self._check()
        return seconds

    def _seconds(self, pipeline: Owned, groups: int, rounds: int, words: int) -> float:
        """Return the time a dispatch takes, on the GPU's clock where it has one."""
        gpu = self.gpu
        gpu.write(self.work.handle, 0, struct.pack("<4I", rounds, words, max(groups * self.threads, 1), 0))
        commands = (DISPATCH, pipeline.handle, self.group.handle, groups, 1, 1)
        if "timestamp-query" not in gpu.features:
            return self._elapsed(commands)
        recording = gpu.own(gpu.record(commands))
        gpu.wait()
        seconds = gpu.timed(recording.handle)
        self._check()
        return seconds

    def _submit(self, pipeline: Owned, groups: int) -> None:
        gpu = self.gpu
        recording = gpu.own(gpu.record((DISPATCH, pipeline.handle, self.group.handle, groups, 1, 1)))
        gpu.submit(recording.handle)
        self._check()

    def _check(self) -> None:
        error = self.gpu.error()
        if error is not None:
            raise error
