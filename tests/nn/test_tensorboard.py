"""Writing for TensorBoard: what was written is read back; without tensorboardX the error says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import webgpu_torch_core as ours

pytest.importorskip("tensorboardX")
from webgpu_torch_nn.utils.tensorboard import SummaryWriter


def events(folder: Path) -> list[Any]:
    """Return the summaries in the one file of a folder: records of length, its checksum, data, its checksum."""
    from tensorboardX.proto.event_pb2 import Event

    (path,) = folder.glob("events.out.tfevents.*")
    data, found = path.read_bytes(), []
    while data:
        length = int.from_bytes(data[:8], "little")
        found.append(Event.FromString(data[12 : 12 + length]))
        data = data[16 + length :]
    return [(value, event.step) for event in found for value in event.summary.value]


def test_scalars_and_pictures(tmp_path: Path, device: str) -> None:
    with SummaryWriter(tmp_path / "run") as writer:
        assert writer.get_logdir() == str(tmp_path / "run")
        writer.add_scalar("loss", ours.tensor(0.5, device=device, requires_grad=True), 3)
        writer.add_scalar("rate", 0.25, global_step=4)
        writer.add_scalar("half", ours.tensor(1.5, device=device, dtype=ours.bfloat16))
        writer.add_histogram("weights", ours.arange(10.0, device=device), 5)
        writer.add_image("picture", ours.ones(3, 4, 6, device=device), 6)
        writer.add_text("note", "said")
    found = {value.tag: (value, step) for value, step in events(tmp_path / "run")}
    assert (found["loss"][0].simple_value, found["loss"][1]) == (0.5, 3)
    assert (found["rate"][0].simple_value, found["rate"][1]) == (0.25, 4)
    assert found["half"][0].simple_value == 1.5
    histogram = found["weights"][0].histo
    assert (histogram.num, histogram.sum, histogram.min, histogram.max) == (10, 45, 0, 9)
    assert (found["picture"][0].image.width, found["picture"][0].image.height) == (6, 4)
    assert "note/text_summary" in found


def test_several_scalars_and_hyperparameters(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars("losses", {"here": ours.tensor(1.0), "there": 2.0}, 1)
    (here,) = events(tmp_path / "losses" / "here")
    assert here[0].simple_value == 1.0


def test_graphs_are_refused(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer, pytest.raises(NotImplementedError, match="SummaryWriter.add_graph"):
        writer.add_graph(None)


def test_the_error_without_tensorboardx() -> None:
    program = "import sys; sys.modules['tensorboardX'] = None; import webgpu_torch.utils.tensorboard"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert "pip install tensorboardX" in done.stderr.splitlines()[-1]


def test_the_module_that_defines_the_writer() -> None:
    program = (
        "import webgpu_torch.as_torch, torch.utils.tensorboard as public, torch.utils.tensorboard.writer as home;"
        "assert home.SummaryWriter is public.SummaryWriter"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
