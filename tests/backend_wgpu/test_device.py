"""The WebGPU runtime with hand-written programs: buffers, plans, parameters, errors."""

from __future__ import annotations

import gc
import os
import random
import threading
from typing import Any

import pytest
from device_programs import (
    ADD,
    INCREMENT,
    PARAMETERS,
    READ_X,
    RELU,
    SCALE,
    WRITE_Y,
    download,
    kernel,
    one_pass,
    plan,
    sum_program,
    upload,
    use,
)
from webgpu_torch_backend_wgpu.errors import KernelError, numbered
from webgpu_torch_backend_wgpu.gpu.interface import GpuError
from webgpu_torch_backend_wgpu.memory import MOST_PARTS, size_class
from webgpu_torch_backend_wgpu.program import Binding, Pass, Program
from webgpu_torch_core.backend.interface import Copy, DeviceLostError, OutOfMemoryError
from webgpu_torch_core.ir.dtypes import float32, int64


@pytest.mark.parametrize("nbytes", [0, 1, 2, 3, 4, 5, 255, 257, 4099, (1 << 20) + 3])
def test_what_is_written_is_read(opened: Any, nbytes: int) -> None:
    data = random.Random(nbytes).randbytes(nbytes)
    buffer = opened.allocate(nbytes)
    opened.write(buffer, memoryview(data))
    assert opened.read(buffer, nbytes) == data


def test_reads_and_writes_larger_than_one_chunk(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webgpu_torch_backend_wgpu.gpu.header.STAGING_BYTES", 1 << 16)
    monkeypatch.setattr("webgpu_torch_backend_wgpu.gpu.header.WRITE_CHUNK", 1 << 15)
    data = random.Random(0).randbytes(5 * (1 << 16) + 7)
    buffer = opened.allocate(len(data))
    opened.write(buffer, memoryview(data))
    assert opened.read(buffer, len(data)) == data
    assert opened.read(buffer, 70000) == data[:70000]


def test_large_reads_are_copied_by_several_threads(opened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webgpu_torch_backend_wgpu.gpu.staging.PARALLEL_COPY_BYTES", 1000)
    monkeypatch.setattr("webgpu_torch_backend_wgpu.gpu.staging._COPIERS", 4)
    for nbytes in (1000, 4097, 100_003):
        data = random.Random(nbytes).randbytes(nbytes)
        buffer = opened.allocate(nbytes)
        opened.write(buffer, memoryview(data))
        assert opened.read(buffer, nbytes) == data


def test_a_short_write_leaves_the_bytes_after_it(opened: Any) -> None:
    buffer = opened.allocate(8)
    opened.write(buffer, memoryview(b"abcdefgh"))
    opened.write(buffer, memoryview(b"XYZ12"))
    assert opened.read(buffer, 8) == b"XYZ12fgh"


def test_writes_take_any_format(opened: Any) -> None:
    import array

    buffer = opened.allocate(8)
    opened.write(buffer, memoryview(array.array("h", [1, 2, 3])))
    assert opened.read(buffer, 6) == b"\1\0\2\0\3\0"


def test_too_much_for_a_buffer_is_refused(opened: Any) -> None:
    buffer = opened.allocate(16)
    with pytest.raises(ValueError, match="cannot write 512 bytes"):
        opened.write(buffer, memoryview(bytes(512)))
    with pytest.raises(ValueError, match="cannot read 512 bytes"):
        opened.read(buffer, 512)


def test_one_step(opened: Any) -> None:
    relu = kernel("relu", 5)
    use(opened, {relu: one_pass("relu", RELU, 5)})
    x = upload(opened, [-1.0, 2.0, -3.0, 4.0, 0.0])
    y = opened.allocate(20)
    opened.run(plan([(relu, (0,), (1,), ())], 2), [x, y], [])
    assert download(opened, y, 5) == [0.0, 2.0, 0.0, 4.0, 0.0]


def test_parameters_change_without_compiling(opened: Any) -> None:
    scale = kernel("scale", 3, parameters=(float32, int64))
    use(opened, {scale: one_pass("scale", SCALE, 3, (READ_X, WRITE_Y, PARAMETERS))})
    x, y, z = upload(opened, [1.0, 2.0, 3.0]), opened.allocate(12), opened.allocate(12)
    made = plan([(scale, (0,), (1,), (0, 1)), (scale, (1,), (2,), (2, 3))], 3)
    for factor, addend in ((2.0, 1), (-1.5, -7), (1e300, 0)):
        opened.run(made, [x, y, z], [factor, addend, 3, 4])
        expected = [value * (factor if factor < 1e39 else float("inf")) + addend for value in (1.0, 2.0, 3.0)]
        assert download(opened, y, 3) == expected
        assert download(opened, z, 3) == [value * 3 + 4 for value in expected]
    assert opened.statistics["programs"] == 1


def test_passes_share_scratch(opened: Any) -> None:
    total = kernel("sum", 1000, outputs=1)
    use(opened, {total: sum_program(1000)})
    x, y = upload(opened, [float(i % 7) for i in range(1000)]), opened.allocate(4)
    opened.run(plan([(total, (0,), (1,), ())], 2), [x, y], [])
    assert download(opened, y, 1) == [float(sum(i % 7 for i in range(1000)))]


def test_in_place_temporaries_and_copies(opened: Any) -> None:
    step = kernel("increment", 4, initial=0)
    use(opened, {step: one_pass("increment", INCREMENT, 4, (WRITE_Y,))})
    x, y = upload(opened, [1.0, 2.0, 3.0, 4.0]), opened.allocate(16)
    # Buffer 2 is a temporary: copied from x, incremented twice, copied to y; x stays.
    made = plan([Copy(0, 2, 16), (step, (2,), (2,), ()), (step, (2,), (2,), ()), Copy(2, 1, 16)], 2, (16,))
    for _ in range(2):
        opened.run(made, [x, y], [])
    assert download(opened, y, 4) == [3.0, 4.0, 5.0, 6.0]
    assert download(opened, x, 4) == [1.0, 2.0, 3.0, 4.0]


def test_a_buffer_both_read_and_written_is_copied_first(opened: Any) -> None:
    add = kernel("add", 3, operands=2, initial=0)
    use(opened, {add: one_pass("add", ADD, 3, (WRITE_Y, Binding("operand", 1, False)))})
    x = upload(opened, [1.0, 2.0, 3.0])
    made = plan([(add, (0, 1), (0,), ())], 2)
    opened.run(made, [x, x], [])
    opened.run(made, [x, x], [])
    assert download(opened, x, 3) == [4.0, 8.0, 12.0]


def test_a_long_plan_is_cut_into_submits_and_stays_in_order(opened: Any) -> None:
    step = kernel("increment", 4, initial=0)
    use(opened, {step: one_pass("increment", INCREMENT, 4, (WRITE_Y,))})
    x = upload(opened, [0.0] * 4)
    before = opened.statistics["submits"]
    opened.run(plan([(step, (0,), (0,), ())] * 700, 1), [x], [])
    assert opened.statistics["submits"] - before == 5
    assert download(opened, x, 4) == [700.0] * 4


def test_wrong_wgsl_names_kernel_line_and_operation(opened: Any) -> None:
    bad = kernel("relu", 5)
    use(opened, {bad: one_pass("relu_fused", RELU.replace("max(x[at.x], 0.0)", "maxi(x[at.x], 0.0)"), 5)})
    x = upload(opened, [0.0] * 5)
    with pytest.raises(KernelError, match="(?s)'relu_fused'.*operation relu.*maxi.*>   6 \\|") as caught:
        opened.run(plan([(bad, (0,), (1,), ())], 2), [x, opened.allocate(20)], [])
    assert "y[at.x] = maxi(" in str(caught.value)
    assert download(opened, x, 5) == [0.0] * 5


@pytest.mark.parametrize("said", ["┌─ wgsl:3:7 unknown", "Error while parsing WGSL: :3:7 error: unresolved"])
def test_the_line_that_a_compiler_names_is_shown(said: str) -> None:
    assert "\n>   3 | c\n" in numbered("a\nb\nc\nd\n", said)
    assert ">" not in numbered("a\nb\n", "something is wrong")


def test_checked_modules_compile_too(opened: Any) -> None:
    opened.compiler.trusted = False
    relu = kernel("relu", 5)
    use(opened, {relu: one_pass("relu", RELU, 5)})
    y = opened.allocate(20)
    opened.run(plan([(relu, (0,), (1,), ())], 2), [upload(opened, [-1.0] * 5), y], [])
    assert download(opened, y, 5) == [0.0] * 5
    bad = kernel("bad", 5)
    use(opened, {bad: one_pass("bad", "fn main() { let a: i32 = 1.5; }", 5)})
    with pytest.raises(KernelError, match=r"(?s)'bad'.*> +1 \| fn main"):
        opened.program(bad)


def test_what_fails_while_running_is_raised_at_the_next_read_at_the_latest_and_named(opened: Any) -> None:
    relu, broken = kernel("relu", 4), kernel("broken", 4)
    # More workgroups than the adapter runs: wgpu refuses the command buffer.
    wrong = Program((Pass("broken_pass", RELU.replace("SIZE", "4"), (70000, 1, 1), (READ_X, WRITE_Y)),), ())
    use(opened, {relu: one_pass("relu", RELU, 4), broken: wrong})
    opened.compiler.capabilities = opened.capabilities.replace(workgroups_per_dimension=1 << 20)
    x, y = upload(opened, [1.0] * 4), opened.allocate(16)
    with pytest.raises(KernelError, match="(?s)'broken_pass' \\(operation broken\\)"):
        # Where the runtime tells at once, the plan has not run and may run again.
        opened.run(plan([(relu, (0,), (1,), ()), (broken, (0,), (1,), ())], 2), [x, y], [])
        opened.read(y, 16)
    opened.synchronize()
    assert download(opened, x, 4) == [1.0] * 4


def test_too_many_workgroups_are_refused_by_name(opened: Any) -> None:
    big = kernel("big", 4)
    use(opened, {big: Program((Pass("big", RELU.replace("SIZE", "4"), (70000, 1, 1), (READ_X, WRITE_Y)),), ())})
    with pytest.raises(KernelError, match="70000"):
        opened.program(big)


def test_sizes_of_buffers() -> None:
    for nbytes in (0, 1, 255, 256, 257, 1000, 1 << 20, (1 << 20) + 1, 3_000_000, (1 << 30) + 5):
        rounded = size_class(nbytes)
        assert rounded >= nbytes
        assert rounded % 256 == 0
        assert size_class(rounded) == rounded
        if nbytes > 1 << 20:
            assert rounded <= nbytes * 9 / 8 + 256
    assert size_class((1 << 31) - 64, (1 << 31) - 16) == (1 << 31) - 16


def test_buffers_come_back(opened: Any) -> None:
    assert opened.live_buffers() == 0
    first, second = opened.allocate(1000), opened.allocate(1000)
    handles = first.handle, second.handle
    assert opened.memory_allocated() == 2048
    assert opened.live_buffers() == 2
    del first, second
    assert opened.memory_allocated() == 0
    assert opened.memory_reserved() == 2048
    again = [opened.allocate(1000), opened.allocate(1000)]
    assert tuple(each.handle for each in again) == handles
    assert opened.max_memory_allocated() == opened.max_memory_reserved() == 2048
    del again
    opened.empty_cache()
    assert opened.memory_reserved() == 0
    opened.reset_peak_memory_stats()
    assert opened.max_memory_allocated() == opened.max_memory_reserved() == 0
    kept = opened.allocate(100)
    assert opened.max_memory_allocated() == opened.max_memory_reserved() == kept.nbytes


def test_out_of_memory_names_sizes_and_limit(opened: Any) -> None:
    pool = opened.pool
    too_much = (MOST_PARTS + 1) * max(pool.part, pool.limit)
    with pytest.raises(OutOfMemoryError, match=f"(?s)allocate {too_much} bytes.*buffers of {pool.limit} bytes"):
        opened.allocate(too_much)
    assert issubclass(OutOfMemoryError, RuntimeError)
    assert issubclass(OutOfMemoryError, MemoryError)


def test_a_kernel_over_the_binding_limit_is_refused(opened: Any) -> None:
    opened.replayer.binding_bytes = 1 << 12
    relu = kernel("relu", 2000)
    use(opened, {relu: one_pass("relu", RELU, 2000)})
    with pytest.raises(KernelError, match="8000 bytes of one buffer; this adapter binds at most 4096"):
        opened.run(plan([(relu, (0,), (1,), ())], 2), [opened.allocate(8000), opened.allocate(8000)], [])


def test_bind_groups_are_made_once(opened: Any) -> None:
    relu = kernel("relu", 64)
    use(opened, {relu: one_pass("relu", RELU, 64)})
    x = upload(opened, [-1.0] * 64)
    made = plan([(relu, (0,), (2,), ()), (relu, (2,), (1,), ())], 2, (256,))
    for _ in range(20):
        opened.run(made, [x, opened.allocate(256)], [])
    statistics = opened.statistics
    assert statistics["bind_groups"] <= 4
    assert statistics["recording_hits"] >= 18
    opened.empty_cache()
    y = opened.allocate(256)
    opened.run(made, [x, y], [])
    assert download(opened, y, 64) == [0.0] * 64


def test_two_threads(opened: Any) -> None:
    relu = kernel("relu", 64)
    use(opened, {relu: one_pass("relu", RELU, 64)})
    failures: list[str] = []

    def work(seed: int) -> None:
        numbers = random.Random(seed)
        made = plan([(relu, (0,), (2,), ()), (relu, (2,), (1,), ())], 2, (256,))
        for _ in range(40):
            values = [float(numbers.randint(-9, 9)) for _ in range(64)]
            x, y = upload(opened, values), opened.allocate(256)
            opened.run(made, [x, y], [])
            if download(opened, y, 64) != [max(each, 0.0) for each in values]:
                failures.append(f"thread {seed}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures
    assert opened.live_buffers() == 0


def test_replays_leave_memory_flat(opened: Any) -> None:
    step = kernel("increment", 64, initial=0)
    use(opened, {step: one_pass("increment", INCREMENT, 64, (WRITE_Y,))})
    x = upload(opened, [0.0] * 64)
    made = plan([(step, (0,), (0,), ())] * 8, 1)

    def resident() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def replay(times: int) -> None:
        for _ in range(times):
            opened.run(made, [x], [])
        opened.synchronize()

    # Drivers fill pools of their own first.
    replay(1000)
    before = resident() if os.path.exists("/proc/self/statm") else 0
    replay(1000)
    after = resident() if before else 0
    assert after - before < 4 << 20
    assert opened.live_buffers() == 1
    assert download(opened, x, 1) == [8 * 2000.0]


def test_after_a_loss_everything_says_so(opened: Any) -> None:
    x = upload(opened, [1.0] * 4)
    opened.gpu.close()
    with pytest.raises(DeviceLostError, match="lost"):
        opened.read(x, 16)
    with pytest.raises(DeviceLostError, match="lost"):
        opened.allocate(16)
    with pytest.raises(DeviceLostError, match="lost"):
        opened.synchronize()
    opened.synchronize = lambda: None


def test_verbose_runs_print_a_line_per_dispatch(opened: Any, capsys: pytest.CaptureFixture[str]) -> None:
    opened.debug = 2
    relu = kernel("relu", 64)
    use(opened, {relu: one_pass("relu_named", RELU, 64)})
    y = opened.allocate(256)
    opened.run(
        plan([(relu, (0,), (1,), ()), Copy(1, 2, 256)], 3), [upload(opened, [2.0] * 64), y, opened.allocate(256)], []
    )
    printed = capsys.readouterr().err
    assert "relu_named" in printed
    assert "workgroups (1, 1, 1)" in printed
    assert "copy" in printed
    assert download(opened, y, 64) == [2.0] * 64


def test_memory_that_garbage_has_is_taken_back_where_there_is_no_other(
    opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, limit = opened.gpu.buffer, opened.memory_reserved() + (3 << 20)

    def buffer(nbytes: int, *more: Any) -> int:
        if opened.memory_reserved() + nbytes > limit:
            raise GpuError("memory", "no more")
        return given(nbytes, *more)

    monkeypatch.setattr(opened.gpu, "buffer", buffer)
    gc.disable()
    try:
        for _ in range(8):
            cycle: list[Any] = [opened.allocate(1 << 20)]
            cycle.append(cycle)
    finally:
        gc.enable()
