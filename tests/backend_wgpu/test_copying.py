"""Copies within a plan: those of the driver, or kernels where these are faster."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu import copying
from webgpu_torch_backend_wgpu.device import WgpuDevice
from webgpu_torch_backend_wgpu.facts import TYPICAL
from webgpu_torch_core.backend.interface import Copy, Plan, Step


@given(nbytes=st.integers(1, 1 << 34), copies=st.floats(1e9, 1e13), bandwidth=st.floats(1e9, 1e13))
@example(nbytes=1 << 20, copies=5e11, bandwidth=3e12)
@example(nbytes=(1 << 20) - 1, copies=5e11, bandwidth=3e12)
@example(nbytes=1 << 30, copies=2.9e12, bandwidth=3e12)
def test_a_kernel_copies_what_is_long_where_the_driver_is_slower(nbytes: int, copies: float, bandwidth: float) -> None:
    copy = Copy(3, 5, nbytes)
    found = copying.fastest(copy, TYPICAL["discrete"].replace(copies=copies, bandwidth=bandwidth))
    if nbytes < 1 << 20 or copies >= bandwidth * 0.8:
        assert found is copy
        return
    assert isinstance(found, Step)
    assert (found.operands, found.outputs) == ((3,), (5,))
    assert nbytes <= found.kernel.outputs[0].numel * 4 < nbytes + 4


def test_either_copies_the_same(opened: WgpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "_LONG", 1)
    compiler, known = opened.compiler, opened.compiler.capabilities

    @settings(max_examples=15, deadline=None)
    @given(nbytes=st.integers(1, 5000), rest=st.integers(0, 9), slower=st.booleans(), data=st.data())
    def run(nbytes: int, rest: int, slower: bool, data: st.DataObject) -> None:
        copies = known.facts.bandwidth / (10 if slower else 1)
        compiler.capabilities = known.replace(facts=known.facts.replace(copies=copies))
        source, target = opened.allocate(nbytes + rest), opened.allocate(nbytes)
        given = bytes(data.draw(st.binary(min_size=8, max_size=8)) * (nbytes // 8 + 2))[: nbytes + rest]
        opened.write(source, given)
        before = opened.replayer.dispatches
        opened.run(Plan([Copy(0, 1, nbytes)], 2, ()), [source, target], [])
        assert bytes(opened.read(target, nbytes)) == given[:nbytes]
        assert opened.replayer.dispatches - before == slower

    run()
