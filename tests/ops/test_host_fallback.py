"""Algorithms of the CPU backend asked by tensors of any device: declared, announced once, counted."""

from __future__ import annotations

import warnings

import pytest
import torch
import webgpu_torch_core as core
from ops_oracle import to_ours, to_torch
from webgpu_torch_core.backend.python_device import PythonDevice
from webgpu_torch_core.operations import host_algorithms as host
from webgpu_torch_core.operations.linalg.common import LinAlgError

MATRIX = torch.tensor([[4.0, 1.0], [1.0, 3.0]])


@pytest.fixture(autouse=True)
def _counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_counts", {})


def test_other_devices_announce_once_and_count(device: str) -> None:
    matrix = to_ours(MATRIX, device)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            factor = core.linalg.cholesky(matrix)
    torch.testing.assert_close(to_torch(factor), torch.linalg.cholesky(MATRIX))
    assert factor.device == matrix.device
    found = [each for each in caught if issubclass(each.category, core.HostFallbackWarning)]
    if device == "cpu":
        assert not found
        assert core.host_fallbacks() == {}
        return
    assert len(found) == 1
    assert "cholesky" in str(found[0].message)
    assert device in str(found[0].message)
    assert found[0].filename == __file__
    assert core.host_fallbacks() == {"cholesky": 3}


def test_meta_tensors_run_nothing() -> None:
    matrix = core.empty(5, 3, 4, device="meta")
    U, S, Vh = core.linalg.svd(matrix, full_matrices=False)
    assert [tuple(each.shape) for each in (U, S, Vh)] == [(5, 3, 3), (5, 3), (5, 3, 4)]
    assert U.is_meta
    with pytest.raises(NotImplementedError, match="depends on data"):
        host.host_call("svdvals", (matrix,), None, (core.float32,))


def test_shapes_from_data() -> None:
    (values,) = host.host_call("svdvals", (to_ours(MATRIX, "cpu"),), None, (core.float32,))
    torch.testing.assert_close(to_torch(values), torch.linalg.svdvals(MATRIX))


def test_no_cpu_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = to_ours(MATRIX, "cpu")

    def none(place: object) -> object:
        raise RuntimeError(f"no backend for {place}")

    monkeypatch.setattr(host, "engine_for", none)
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match="runs on the CPU backend: no backend for cpu"):
        warnings.simplefilter("error")
        core.linalg.cholesky(matrix)


def test_the_warning_points_at_the_users_line_from_deep_inside(device: str) -> None:
    if device == "cpu":
        pytest.skip("nothing falls back")
    matrix = to_ours(MATRIX, device)
    for call in (lambda: matrix.det(), lambda: core.linalg.pinv(matrix), lambda: core.linalg.cond(matrix, "nuc")):
        host._counts.clear()
        with pytest.warns(core.HostFallbackWarning) as caught:
            call()
        assert {each.filename for each in caught} == {__file__}


def test_a_device_without_algorithms_names_the_package() -> None:
    with pytest.raises(NotImplementedError, match="pip install webgpu-torch-backend-cpu"):
        PythonDevice().algorithm("svd", (), {})


@pytest.mark.filterwarnings("ignore::webgpu_torch_core.operations.host_algorithms.HostFallbackWarning")
def test_compiled_functions_say_that_they_are_not_replayed(device: str) -> None:
    matrix = to_ours(MATRIX, device)
    compiled = core.compile(lambda x: core.linalg.inv_ex(x)[0] * 2)
    with pytest.warns(UserWarning, match="runs on the CPU"):
        compiled(matrix)
    torch.testing.assert_close(to_torch(compiled(matrix)), torch.linalg.inv(MATRIX) * 2)


def test_errors_of_the_algorithms() -> None:
    assert core.linalg.LinAlgError is LinAlgError
    assert issubclass(LinAlgError, RuntimeError)
    with pytest.raises(LinAlgError, match="not positive-definite"):
        core.linalg.cholesky(to_ours(-MATRIX, "cpu"))
    with pytest.raises(LinAlgError, match="svd"):
        core.linalg.svd(to_ours(MATRIX * float("nan"), "cpu"))
