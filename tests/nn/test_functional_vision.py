"""Interpolation, sampling, padding and the rearrangement of pixels."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import webgpu_torch
import webgpu_torch_nn.functional as functional
from functional_oracle import check, tensor
from nn_oracle import to_ours

RESIZES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 2, 7), {"size": 12, "mode": "nearest"}),
    ((1, 2, 7, 5), {"scale_factor": 2, "mode": "nearest"}),
    ((1, 2, 7, 5), {"size": (3, 9), "mode": "nearest-exact"}),
    ((1, 2, 4, 3, 5), {"scale_factor": (1.5, 2.0, 0.7), "mode": "nearest"}),
    ((2, 3, 7), {"size": 11, "mode": "linear", "align_corners": True}),
    ((1, 2, 6, 5), {"scale_factor": 2.0, "mode": "bilinear", "align_corners": False}),
    ((1, 2, 6, 5), {"scale_factor": (0.6, 1.7), "mode": "bilinear", "recompute_scale_factor": True}),
    ((1, 2, 6, 5), {"size": (9, 4), "mode": "bilinear", "align_corners": True}),
    ((1, 2, 6, 5), {"size": (9, 4), "mode": "bicubic", "align_corners": True}),
    ((1, 2, 6, 5), {"scale_factor": 1.6, "mode": "bicubic"}),
    ((1, 1, 9, 12), {"size": (4, 5), "mode": "bilinear", "antialias": True}),
    ((1, 1, 9, 12), {"size": (4, 15), "mode": "bicubic", "antialias": True}),
    ((1, 2, 3, 4, 5), {"size": (5, 6, 4), "mode": "trilinear"}),
    ((1, 2, 7, 9), {"size": (3, 4), "mode": "area"}),
]


@pytest.mark.parametrize(("shape", "options"), RESIZES)
def test_interpolate(device: str, shape: tuple[int, ...], options: dict[str, Any]) -> None:
    check(device, "interpolate", tensor(*shape), **options)


@pytest.mark.parametrize("shape", [(2, 3, 6, 4), (1, 3, 6, 4), (2, 1, 6, 4), (2, 3, 1, 4), (2, 3, 4, 2, 3)])
def test_interpolation_keeps_channels_last(device: str, shape: tuple[int, ...]) -> None:
    last = "channels_last" if len(shape) == 4 else "channels_last_3d"
    values = tensor(*shape).contiguous(memory_format=getattr(torch, last))
    own = to_ours(values, device).contiguous(memory_format=getattr(webgpu_torch, last))
    for mode in ("nearest", "bilinear" if len(shape) == 4 else "trilinear"):
        for cut in (lambda t: t, lambda t: t[..., 1:], lambda t: t[0][None], lambda t: t.contiguous()):
            want, found = cut(values).requires_grad_(), cut(own).requires_grad_()
            want, found = (
                f.interpolate(each, scale_factor=2, mode=mode)
                for f, each in ((torch.nn.functional, want), (functional, found))
            )
            assert tuple(found.stride()) == want.stride()
            torch.testing.assert_close(torch.tensor(found.tolist()), want.detach())
    made = webgpu_torch.empty(shape, memory_format=getattr(webgpu_torch, last), device=device)
    assert tuple(made.stride()) == torch.empty(shape, memory_format=getattr(torch, last)).stride()


@pytest.mark.parametrize("kind", ["int32", "bool", "uint8"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_integers_are_not_interpolated(mode: str, kind: str) -> None:
    values = torch.ones(1, 2, 4)
    if (mode, kind) == ("nearest", "uint8"):
        assert functional.interpolate(to_ours(values.to(torch.uint8), "cpu"), scale_factor=2).shape == (1, 2, 8)
        return
    for library, each in ((torch, values), (webgpu_torch, to_ours(values, "cpu"))):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            library.nn.functional.interpolate(each.to(getattr(library, kind)), scale_factor=2, mode=mode)


def test_interpolation_of_bytes(device: str) -> None:
    values = torch.randint(0, 256, (1, 3, 5, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    want = torch.nn.functional.interpolate(values, scale_factor=2, mode="nearest")
    assert functional.interpolate(to_ours(values, device), scale_factor=2, mode="nearest").tolist() == want.tolist()


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(device: str, mode: str, padding_mode: str, align_corners: bool) -> None:
    grid = tensor(2, 3, 4, 2, low=-1.4, high=1.4)
    check(
        device, "grid_sample", tensor(2, 3, 5, 6), grid, mode=mode, padding_mode=padding_mode, align_corners=align_corners,
        twice=False, atol=1e-4,
    )  # fmt: skip


def test_grid_sample_of_volumes(device: str) -> None:
    grid = tensor(1, 2, 3, 2, 3, low=-1.2, high=1.2)
    check(device, "grid_sample", tensor(1, 2, 3, 4, 5), grid, align_corners=False, twice=False, atol=1e-4)


@pytest.mark.parametrize("align_corners", [False, True])
def test_affine_grid(device: str, align_corners: bool) -> None:
    check(device, "affine_grid", tensor(2, 2, 3), (2, 3, 4, 5), align_corners=align_corners)
    check(device, "affine_grid", tensor(1, 3, 4), (1, 2, 3, 2, 2), align_corners=align_corners)


PADS: list[tuple[tuple[int, ...], tuple[int, ...], str]] = [
    ((2, 3, 4), (1, 2), "reflect"),
    ((1, 2, 5, 4), (2, 1, 0, 3), "reflect"),
    ((1, 2, 5, 4), (2, 1, -1, 3), "replicate"),
    ((1, 1, 3, 4, 5), (2, 2, 1, 0, 1, 1), "replicate"),
    ((1, 2, 5, 4), (2, 1, 0, 3), "circular"),
    ((1, 3, 4, 4), (-1, 1, -2, 1), "circular"),
]


@pytest.mark.parametrize(("shape", "amounts", "mode"), PADS)
def test_padding_by_what_the_input_holds(
    device: str, shape: tuple[int, ...], amounts: tuple[int, ...], mode: str
) -> None:
    check(device, "pad", tensor(*shape), amounts, mode=mode)


def test_padding_of_integers(device: str) -> None:
    values = torch.arange(12).reshape(1, 3, 4)
    want = torch.nn.functional.pad(values, (2, 1), mode="reflect")
    assert functional.pad(to_ours(values, device), (2, 1), mode="reflect").tolist() == want.tolist()


def test_rearranging_pixels_and_channels(device: str) -> None:
    check(device, "pixel_shuffle", tensor(2, 8, 3, 4), 2)
    check(device, "pixel_unshuffle", tensor(2, 3, 6, 4), 2)
    check(device, "channel_shuffle", tensor(2, 6, 3, 2), 3)


TRANSPOSED: list[tuple[int, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    (1, (2, 4, 6), (4, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    (2, (1, 4, 5, 4), (4, 2, 3, 2), {"stride": (2, 3), "padding": (1, 0), "groups": 2, "dilation": (1, 2)}),
    (2, (4, 5, 4), (4, 3, 1, 1), {"stride": 2, "padding": 1}),
    (3, (1, 2, 3, 3, 2), (2, 2, 2, 2, 3), {"stride": 2}),
]


@pytest.mark.parametrize(("spatial", "shape", "weight", "options"), TRANSPOSED)
def test_transposed_convolution(
    device: str, spatial: int, shape: tuple[int, ...], weight: tuple[int, ...], options: dict[str, Any]
) -> None:
    bias = tensor(weight[1] * options.get("groups", 1))
    check(device, f"conv_transpose{spatial}d", tensor(*shape), tensor(*weight), bias, atol=1e-4, **options)


def test_convolution_whose_stride_skips_what_its_padding_adds(device: str) -> None:
    check(device, "conv1d", tensor(2, 3, 6), tensor(4, 3, 1), stride=2, padding=2, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "weight", "options"),
    [
        ((2, 4, 7, 6), (6, 2, 3, 3), {"stride": 2, "padding": 1, "groups": 2}),
        ((1, 3, 8, 9), (2, 3, 1, 1), {"stride": (2, 3)}),
        ((1, 2, 9, 9), (2, 2, 2, 5), {"stride": (3, 2), "padding": (0, 2)}),
        ((1, 2, 6, 6), (3, 2, 3, 5), {"padding": "same"}),
    ],
)
def test_gradients_of_strided_convolution(
    device: str, shape: tuple[int, ...], weight: tuple[int, ...], options: dict[str, Any]
) -> None:
    check(device, "conv2d", tensor(*shape), tensor(*weight), tensor(weight[0]), atol=1e-4, **options)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("size", [(5, 4), (13, 17), (4, 20)])
def test_images_of_bytes_are_rounded_as_pytorch_rounds_them(mode: str, antialias: bool, size: tuple[int, int]) -> None:
    image = torch.randint(0, 256, (2, 3, 9, 12), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    expected = torch.nn.functional.interpolate(image, size, mode=mode, antialias=antialias)
    found = functional.interpolate(to_ours(image, "cpu"), size, mode=mode, antialias=antialias)
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    ("shape", "factor", "mode"),
    [((1, 3, 11, 7), 2, "bicubic"), ((2, 2, 5, 4, 3), 2, "trilinear"), ((2, 3, 5, 4), 20, "nearest")],
)
def test_gradients_of_16_bits_are_rounded_once(shape: tuple[int, ...], factor: int, mode: str, kind: str) -> None:
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(3))

    def run(t: Any) -> Any:
        x = t.tensor(numbers.tolist(), dtype=getattr(t, kind)).requires_grad_()
        result = t.nn.functional.interpolate(x, scale_factor=factor, mode=mode)
        seed = t.arange(result.numel(), dtype=t.float32).reshape(result.shape).sin()
        result.backward(seed.to(x.dtype))
        return result.tolist(), x.grad.tolist()

    assert run(webgpu_torch) == run(torch)
