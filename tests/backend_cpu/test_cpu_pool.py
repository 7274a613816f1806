"""Pooled memory of the CPU device: reused, bounded, and never taken from under a NumPy array."""

from __future__ import annotations

import numpy
import webgpu_torch_core as torch
from webgpu_torch_backend_cpu import pool as pools
from webgpu_torch_backend_cpu.pool import LINE, Pool
from webgpu_torch_core.record.devices import canonical_device, engine_for, synchronize


def test_numpy_views_outlive_their_tensor() -> None:
    array = (torch.ones(100_000) * 3).numpy()
    later = [torch.zeros(100_000).add(1).numpy() for _ in range(4)]
    assert numpy.all(array == 3)
    assert all(numpy.all(each == 1) for each in later)


def test_freed_buffers_are_used_again_and_can_be_given_back() -> None:
    device = engine_for(canonical_device("cpu")).device
    device.empty_cache()
    tensor = torch.ones(100_000) + 1
    tensor.sum().item()
    del tensor
    kept = device.pool.nbytes
    assert kept >= 400_000
    assert device.memory_reserved() == device.memory_allocated() + kept
    (torch.ones(100_000) + 1).sum().item()
    assert device.pool.nbytes == kept
    device.empty_cache()
    assert device.pool.nbytes == 0


def test_what_a_run_used_last_is_used_again() -> None:
    device = engine_for(canonical_device("cpu")).device
    start = torch.ones(100_000).contiguous()
    synchronize("cpu")
    device.empty_cache()
    middle = start + 1
    synchronize("cpu")
    total = middle.sum()
    del middle
    # Nobody but the run itself refers to it now.
    synchronize("cpu")
    assert device.pool.nbytes >= 400_000
    assert total.item() == 200_000


def test_the_pool_is_bounded() -> None:
    pool = Pool()
    pool.LIMIT = 1 << 20
    for number in range(8):
        pool.give(numpy.empty((1 << 18) + number, numpy.uint8))
    assert pool.nbytes <= pool.LIMIT
    assert pool.take((1 << 18) + 7).nbytes == (1 << 18) + 7


def test_large_arrays_begin_with_a_line_of_the_cache() -> None:
    for count in (5000, 100_001):
        arrays = [(torch.ones(count) + number).numpy() for number in range(4)]
        assert all(each.ctypes.data % LINE == 0 for each in arrays)


def test_views_of_a_part_keep_memory_from_being_used_again() -> None:
    array = (torch.ones(100_000) * 3).numpy()[5:9][::2]
    later = [(torch.zeros(100_000) + number).numpy() for number in range(4)]
    assert numpy.all(array == 3)
    assert [each[7] for each in later] == [0, 1, 2, 3]


def test_memory_of_registers_is_had_by_one_at_a_time() -> None:
    first, second = pools.take_registers(1000), pools.take_registers(1000)
    assert not numpy.shares_memory(first, second)
    pools.give_registers(first)
    assert pools.take_registers(first.nbytes) is first
    pools.give_registers(first)
    larger = pools.take_registers(first.nbytes + 1)
    assert larger.nbytes > first.nbytes
    for each in (larger, second) * 5:
        pools.give_registers(each)
    assert len(pools._registers) <= pools._MOST_KEPT
    pools._registers.clear()
