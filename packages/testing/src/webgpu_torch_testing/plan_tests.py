"""Buffers and plans: bytes in and out, temporaries, copies, parameters, repetition, bookkeeping."""

from __future__ import annotations

import gc

import pytest
from webgpu_torch_core.backend.interface import REPORT_SLOTS, Copy, Plan, Step
from webgpu_torch_core.ir.dtypes import float32, int8, int32, int64
from webgpu_torch_core.ir.expression import Expression, checked, parameter, reduced
from webgpu_torch_core.ir.kernels import Pointwise, Reduction, RowProgram
from webgpu_torch_core.ir.monoids import monoid

from .base import Conformance
from .building import elementwise, operands, outputs, read, write
from .running import buffer_with, host_bytes, numbers_in, run_kernel


def shift(size: int) -> Pointwise:
    """Return ``out = in + parameter``."""
    return elementwise((size,), (float32,), lambda x: x + parameter(0, float32), float32, (float32,), "shift")


def double(size: int) -> Pointwise:
    """Return ``out = in * 2``."""
    return elementwise((size,), (float32,), lambda x: x * 2.0, float32, name="double")


class PlanTests(Conformance):
    """See the module."""

    @pytest.mark.parametrize("nbytes", [1, 2, 3, 4, 5, 7, 8, 15, 64, 255, 256, 1001, 65537])
    def test_bytes_in_and_out(self, nbytes: int) -> None:
        data = bytes(i * 37 % 251 for i in range(nbytes))
        buffer = self.target.allocate(nbytes)
        self.target.write(buffer, memoryview(data))
        result = self.target.read(buffer, nbytes)
        if not isinstance(result, bytearray) or bytes(result) != data:
            raise AssertionError(f"{nbytes} bytes did not come back as a bytearray with the same contents")
        if bytes(self.target.read(buffer, 1)) != data[:1]:
            raise AssertionError("the first byte alone is not what was written")

    def test_writing_again(self) -> None:
        buffer = buffer_with(self.target, [1.0, 2.0, 3.0], float32)
        self.target.write(buffer, memoryview(bytes(8)))
        if numbers_in(self.target, buffer, 3, float32) != [0.0, 0.0, 3.0]:
            raise AssertionError("a write of 8 bytes must change these and no others")

    def test_written_memory_may_be_reused(self) -> None:
        data = bytearray(b"abcdefgh")
        buffer = self.target.allocate(8)
        self.target.write(buffer, memoryview(data))
        data[:] = bytes(8)
        if bytes(self.target.read(buffer, 8)) != b"abcdefgh":
            raise AssertionError("write must take the bytes before it returns")

    def test_chain_through_temporaries(self) -> None:
        # 0: input, 1: output, 2 and 3: temporaries; the second temporary is used twice.
        size = 5
        steps = (
            Step(double(size), (0,), (2,), ()),
            Step(shift(size), (2,), (3,), (1,)),
            Step(double(size), (3,), (2,), ()),
            Step(shift(size), (2,), (1,), (0,)),
        )
        plan = Plan(steps, 2, (size * 4, size * 4))
        source, target = buffer_with(self.target, [0.0, 1.0, 2.0, 3.0, 4.0], float32), self.target.allocate(size * 4)
        for first, second in ((1.0, 10.0), (-1.0, 0.5), (1.0, 10.0)):
            self.target.run(plan, [source, target], [first, second])
            self.expect(target, [(2.0 * x + second) * 2.0 + first for x in range(5)])

    def test_timed_runs(self) -> None:
        # A device that cannot tell how long its kernels take reports none of them, but runs them all the same.
        plan = Plan((Step(double(3), (0,), (2,), ()), Copy(2, 3, 12), Step(shift(3), (3,), (1,), (0,))), 2, (12, 12))
        source, target = buffer_with(self.target, [1.0, 2.0, 3.0], float32), self.target.allocate(12)
        reported: list[tuple[str, float, str]] = []
        for number in range(3):
            reported.clear()
            self.target.run_timed(plan, [source, target], [number], lambda *each: reported.append(each))
            self.expect(target, [2.0 + number, 4.0 + number, 6.0 + number])
            if reported and len(reported) < 2:
                raise AssertionError(f"two kernels ran, but only {reported} was reported")
            if any(seconds < 0 or clock not in ("device", "host") for _, seconds, clock in reported):
                raise AssertionError(f"times are not negative and from the clock 'device' or 'host', not {reported}")
            self.target.run(plan, [source, target], [0.5])
            self.expect(target, [2.5, 4.5, 6.5])

    def expect(self, buffer: object, wanted: list[float]) -> None:
        """Compare a float32 buffer."""
        found = numbers_in(self.target, buffer, len(wanted), float32)
        if found != wanted:
            raise AssertionError(f"expected {wanted}, got {found}")

    def test_plan_with_other_buffers(self) -> None:
        plan = Plan((Step(double(3), (0,), (1,), ()),), 2, ())
        a, b, c = (buffer_with(self.target, [i + 1.0] * 3, float32) for i in range(3))
        self.target.run(plan, [a, b], [])
        self.target.run(plan, [b, c], [])
        self.target.run(plan, [c, a], [])
        for buffer, wanted in ((a, 8.0), (b, 2.0), (c, 4.0)):
            self.expect(buffer, [wanted] * 3)

    def test_two_plans_sharing_buffers(self) -> None:
        # Nothing between the runs waits for the device: their order must hold by itself.
        in_place = Pointwise(
            operands((float32, 4)), outputs((float32, 4, 0)), (float32,), "add in place", (4,),
            (write(0, (4,), read(0, (4,), float32) + parameter(0, float32), float32),),
        )  # fmt: skip
        add, twice = Plan((Step(in_place, (0,), (0,), (0,)),), 1, ()), Plan((Step(double(4), (0,), (1,), ()),), 2, ())
        x, y = buffer_with(self.target, [1.0] * 4, float32), buffer_with(self.target, [0.0] * 4, float32)
        value = 1.0
        for number in range(9):
            self.target.run(add, [x], [float(number)])
            self.target.run(twice, [x, y], [])
            self.target.run(twice, [y, x], [])
            value = (value + number) * 4.0
        self.target.synchronize()
        self.expect(x, [value] * 4)

    def test_writes_between_runs_are_ordered(self) -> None:
        plan = Plan((Step(double(2), (0,), (1,), ()),), 2, ())
        source = buffer_with(self.target, [0.0, 0.0], float32)
        results = []
        for i in range(5):
            self.target.write(source, memoryview(host_bytes([i, i + 1], float32)))
            results.append(self.target.allocate(8))
            self.target.run(plan, [source, results[-1]], [])
        for i, buffer in enumerate(results):
            self.expect(buffer, [2.0 * i, 2.0 * i + 2.0])

    @pytest.mark.parametrize("count", [1, 3, 4, 6, 1001])
    def test_copies(self, count: int) -> None:
        # A copy of the source is changed in place; the source stays.
        change = Pointwise(
            operands((int8, count)), outputs((int8, count, 0)), (), "negate", (count,),
            (write(0, (count,), -read(0, (count,), int8), int8),),
        )  # fmt: skip
        self.needs(int8)
        steps = (Copy(0, 2, count), Step(change, (2,), (2,), ()), Copy(2, 1, count))
        values = [i % 100 for i in range(count)]
        source, target = buffer_with(self.target, values, int8), buffer_with(self.target, [7] * count, int8)
        self.target.run(Plan(steps, 2, (count,)), [source, target], [])
        if numbers_in(self.target, target, count, int8) != [-each for each in values]:
            raise AssertionError("the changed copy is wrong")
        if numbers_in(self.target, source, count, int8) != values:
            raise AssertionError("the source of the copy changed")

    def test_plan_of_different_forms(self) -> None:
        x = read(0, (2, 3), float32)
        row = RowProgram(
            operands((float32, 6)), outputs((float32, 2)), (), "row maximum", (2,), (3,),
            (Reduction(monoid("maximum", float32), x),),
            (write(0, (2,), reduced(0, float32), float32),), (),
        )  # fmt: skip
        steps = (Step(shift(6), (0,), (2,), (0,)), Step(row, (2,), (3,), ()), Step(double(2), (3,), (1,), ()))
        source, target = buffer_with(self.target, [1.0, 5.0, 3.0, -1.0, -5.0, -3.0], float32), self.target.allocate(8)
        self.target.run(Plan(steps, 2, (24, 8)), [source, target], [10.0])
        self.expect(target, [30.0, 18.0])

    def test_parameters_of_a_step(self) -> None:
        # The step's parameter 0 is the run's parameter 2 and so on.
        value = parameter(0, float32) * 100.0 + parameter(1, float32)
        kernel = elementwise((2,), (), lambda: value, float32, (float32, float32), "two parameters")
        plan = Plan((Step(kernel, (), (0,), (2, 0)), Step(kernel, (), (1,), (1, 1))), 2, ())
        a, b = self.target.allocate(8), self.target.allocate(8)
        self.target.run(plan, [a, b], [1.0, 2.0, 3.0])
        self.expect(a, [301.0] * 2)
        self.expect(b, [202.0] * 2)

    def test_equal_kernels_in_different_plans(self) -> None:
        kernel = elementwise((3,), (int32,), lambda x: x * 3 - 1, int32, name="equal")
        for values in ([1, 2, 3], [-5, 0, 7]):
            self.check(kernel, [values], [[3 * each - 1 for each in values]])

    def test_bookkeeping(self) -> None:
        gc.collect()
        self.target.synchronize()
        buffers, memory = self.target.live_buffers(), self.target.memory_allocated()
        held = [self.target.allocate(1000) for _ in range(3)]
        if self.target.live_buffers() not in (0, buffers + 3):
            raise AssertionError(
                f"three more buffers are in use, live_buffers went {buffers} to {self.target.live_buffers()}"
            )
        if self.target.memory_allocated() != 0 and self.target.memory_allocated() < memory + 3000:
            raise AssertionError("memory_allocated does not count the new buffers")
        del held
        gc.collect()
        if self.target.live_buffers() != buffers or self.target.memory_allocated() != memory:
            raise AssertionError("released buffers are still counted")
        self.target.empty_cache()
        if self.target.memory_reserved() < self.target.memory_allocated():
            raise AssertionError("memory_reserved is less than memory_allocated")

    def test_running_leaves_nothing_behind(self) -> None:
        run_kernel(self.target, double(3), [[1.0, 2.0, 3.0]])
        gc.collect()
        before = self.target.live_buffers()
        for _ in range(3):
            run_kernel(self.target, double(3), [[1.0, 2.0, 3.0]])
        gc.collect()
        if self.target.live_buffers() > before:
            raise AssertionError(f"{self.target.live_buffers() - before} buffers of finished runs are still in use")

    def test_reports(self) -> None:
        """A device whose kernels report tells the code and all 64 bits of what was found, once."""
        if not self.target.reports:
            if self.target.reported():
                raise AssertionError("reported() is for devices that say so by `reports`")
            return

        def value(x: Expression) -> Expression:
            return checked(x * 2.0, x < 0, parameter(0, int32), parameter(1, int64))

        kernel = elementwise((5,), (float32,), value, float32, (int32, int64), "reporting")
        for code, found in ((70, -5), (REPORT_SLOTS * 3 + 63, (1 << 40) + 7)):
            for given, wanted in (([1.0, 2.0, 3.0, 4.0, 5.0], []), ([1.0, -2.0, 3.0, -4.0, 5.0], [(code, found)])):
                run_kernel(self.target, kernel, [given], (code, found))
                told = self.target.reported(), self.target.reported()
                if told != (wanted, []):
                    raise AssertionError(f"reported() gave {told[0]}, then {told[1]}; expected {wanted}, then []")

    def test_description(self) -> None:
        if not self.target.name or float32 not in self.target.dtypes or int32 not in self.target.dtypes:
            raise AssertionError("a device has a name and at least float32 and int32")
        if not isinstance(self.target.description(), dict):
            raise AssertionError("description() returns a dictionary")
        if not self.target.source(double(3)).strip():
            raise AssertionError("source() of a kernel is empty")
