"""A session's functions as files: the plan, the kernels' texts, and weights in shards that other tools read, too.

plan.json numbers buffers, shaders, pipelines and bind groups; a command is six numbers, as in
:mod:`webgpu_torch_backend_wgpu.gpu.interface`: 0, pipeline, group, workgroups in x, y, z, or 1, source, offset, target,
offset, bytes. ``functionsForHost`` are those that differ on adapters whose work the host does and which have the features that
these take besides. Weights say where in which file their bytes are, and which buffers they go to.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator
from importlib.resources import files as resources
from pathlib import Path
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from webgpu_torch_backend_wgpu.gpu.interface import COPY, DEFAULT_LIMITS, UNIFORM, WORDS, Limits, camel
from webgpu_torch_core.files.host_tensors import HostTensor
from webgpu_torch_core.files.safetensors import serialize_safetensors
from webgpu_torch_core.ir.dtypes import dtype, uint8

from .capture import Captured, Held, Pieces, Port, Session
from .device import FEATURES_FOR_HOST
from .storing import SHRINKS, kind_of, stored

#: most bytes of tensors in one file
SHARD_BYTES = 1 << 28
#: what readers of the plan have to know
VERSION = 1

Json = dict[str, object]
#: how a bind group's buffers are bound, and (buffer, offset, bytes) of each
_Group = tuple[tuple[str, ...], tuple[tuple[int, int, int], ...]]
#: a pipeline's name, shader, and how its buffers are bound
_Pipeline = tuple[str, int, tuple[str, ...]]
Key = TypeVar("Key")


class _Weight(NamedTuple):
    """Bytes that are in buffers before anything runs, each of ``targets``; ``kind``: what float32 numbers are stored as."""

    name: str
    dtype: dtype
    shape: tuple[int, ...]
    data: bytes | bytearray | memoryview
    targets: list[Pieces]
    kind: str


class _Numbers(Generic[Key]):
    """Numbers from 0 for what is met, in the order in which it is first met."""

    def __init__(self) -> None:
        self.met: dict[Key, int] = {}

    def __getitem__(self, each: Key) -> int:
        return self.met.setdefault(each, len(self.met))


#: the numbers of buffers and of bind groups
_Used: TypeAlias = tuple[_Numbers[int], _Numbers[_Group]]


class _Plan:
    """The part of a session that its functions use, numbered."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.gpu = session.kept
        self.buffers, self.groups, self.shaders = _Numbers[int](), _Numbers[_Group](), _Numbers[str]()
        # By what they are: kernels for graphics cards and for the host are often the same.
        self.pipelines = _Numbers[_Pipeline]()
        self.used: _Used = self.buffers, self.groups
        self.outside = {
            handle for each in session.held.values() for handle, _, _ in each.buffer.pieces(0, each.buffer.nbytes)
        }
        self.functions = {card.name: self._function(card, self.used) for card, _ in session.functions}
        self.functions_for_host = {
            host.name: self._function(host, self.used)
            for card, host in session.functions
            if self._alone(card) != self._alone(host)
        }

    def _alone(self, captured: Captured) -> object:
        """Return what a function does, whichever memory of its own it does that in."""
        used = _Numbers[int](), _Numbers[_Group]()
        described = self._function(captured, used)
        memory = [
            handle if handle in self.outside else (self.gpu.buffers[handle], self.gpu.written.get(handle))
            for handle in used[0].met
        ]
        return described, [*used[1].met], memory

    def _function(self, captured: Captured, used: _Used) -> Json:
        words = captured.commands
        commands = (self._command(words[at : at + WORDS], used) for at in range(0, len(words), WORDS))
        return {
            "inputs": [self._port(each, used) for each in captured.inputs],
            "outputs": [self._port(each, used) for each in captured.outputs],
            "values": captured.values,
            "commands": [number for each in commands for number in each],
        }

    def _command(self, words: list[int], used: _Used) -> list[int]:
        kind, first, second, *rest = words
        buffers, groups = used
        if kind == COPY:
            target, start, nbytes = rest
            return [kind, buffers[first], second, buffers[target], start, nbytes]
        request, (layout, entries) = self.gpu.requests[first], self.gpu.groups[second]
        pipeline = self.pipelines[request.label, self.shaders[request.source], self.gpu.kinds[request.layout]]
        return [kind, pipeline, groups[self.gpu.kinds[layout], tuple(_pieces(entries, buffers))], *rest]

    def _port(self, port: Port, used: _Used) -> Json:
        return {"name": port.name, "dtype": port.dtype.name, "shape": port.shape, "at": _pieces(port.pieces, used[0])}

    def described(self, weights: list[Json]) -> Json:
        """Return the plan: everything but texts and weights."""
        gpu = self.gpu
        groups = [{"layout": layout, "entries": entries} for layout, entries in self.groups.met]
        pipelines = [
            {"label": label, "shader": shader, "layout": layout} for label, shader, layout in self.pipelines.met
        ]
        buffers: list[Json] = []
        for handle in self.buffers.met:
            nbytes, use = gpu.buffers[handle]
            described: Json = {"bytes": nbytes}
            if use == UNIFORM:
                described["uniform"] = [
                    [offset, base64.b64encode(data).decode()] for offset, data in gpu.written.get(handle, ())
                ]
            buffers.append(described)
        return {
            "format": "webgpu-torch", "version": VERSION, "features": self.session.features,
            "featuresForHost": [*FEATURES_FOR_HOST], "limits": raised(gpu.limits),
            "buffers": buffers, "pipelines": pipelines, "groups": groups, "weights": weights, "functions": self.functions,
            "functionsForHost": self.functions_for_host,
        }  # fmt: skip

    def weights(self, stored_as: str) -> Iterator[_Weight]:
        """Yield what is in buffers before anything runs; a buffer without is all zeros."""
        for held in self.session.held.values():
            pieces = held.buffer.pieces(0, held.value.numel * held.value.dtype.itemsize)
            if any(handle in self.buffers.met for handle, _, _ in pieces):
                yield from self._held(held, pieces, stored_as)
        # Functions for graphics cards and for the host share no memory, but what is written there.
        constants: dict[bytes, list[Pieces]] = {}
        for handle in [each for each in self.buffers.met if each not in self.outside]:
            if self.gpu.buffers[handle][1] != UNIFORM:
                for offset, data in self.gpu.written.get(handle, ()):
                    constants.setdefault(data, []).append([(handle, offset, len(data))])
        for number, (data, targets) in enumerate(constants.items()):
            yield _Weight(f"constant.{number}", uint8, (len(data),), data, targets, "")

    def _held(self, held: Held, pieces: Pieces, stored_as: str) -> Iterator[_Weight]:
        data = memoryview(held.value.engine.read(held.value)).cast("B")
        if not any(data):
            return
        kind = kind_of(held, stored_as)
        step = SHARD_BYTES * SHRINKS[kind]
        for start in range(0, len(data), step):
            part = data[start : start + step]
            split = len(data) > step
            shape = (len(part) // held.value.dtype.itemsize,) if split else held.shape
            name = f"{held.name}.part{start // step}" if split else held.name
            target = held.buffer.pieces(start, start + len(part)) if split else pieces
            yield _Weight(name, *stored(held, part, shape, kind), [target], kind)


def _pieces(pieces: Pieces, buffers: _Numbers[int]) -> Pieces:
    return [(buffers[handle], offset, nbytes) for handle, offset, nbytes in pieces]


def raised(limits: Limits) -> dict[str, int]:
    """Return the limits that an adapter has to be asked for, by their names in JavaScript."""
    found = {}
    for name in Limits.fields:
        value: int = getattr(limits, name)
        if value != getattr(DEFAULT_LIMITS, name):
            found[camel(name)] = value
    return found


def _shards(weights: Iterable[_Weight]) -> Iterator[list[_Weight]]:
    """Yield what goes into each file."""
    kept: list[_Weight] = []
    size = 0
    for each in weights:
        if kept and size + len(each.data) > SHARD_BYTES:
            yield kept
            kept, size = [], 0
        kept.append(each)
        size += len(each.data)
    if kept:
        yield kept


def _written(folder: Path, number: int, weights: list[_Weight], plan: _Plan) -> Iterator[Json]:
    """Write one file of weights, and yield where in it each is and where it goes."""
    name = f"weights-{number:05}.safetensors"
    tensors = {each.name: HostTensor.from_bytes(each.dtype, each.shape, each.data) for each in weights}
    pieces = serialize_safetensors(tensors)
    header = bytes(next(iter(pieces)))
    places = json.loads(header[8:])
    with (folder / name).open("wb") as file:
        file.write(header)
        for piece in pieces:
            file.write(piece)
    for each in weights:
        begin, end = places[each.name]["data_offsets"]
        for target in each.targets:
            described: Json = {
                "name": each.name, "file": name, "offset": len(header) + begin, "bytes": end - begin,
                "target": _pieces(target, plan.buffers),
            }  # fmt: skip
            if each.kind:
                described["stored"] = each.kind
            yield described


def write_folder(session: Session, folder: Path, weights: str, extra: Json, scripts: Iterable[str]) -> None:
    """Write a session's functions.

    Args:
        session: what was captured.
        folder: where to; it is made if need be, and files of an earlier export are replaced.
        weights: what float32 weights are stored as, one of :data:`.storing.WEIGHTS`.
        extra: more entries of the plan.
        scripts: files of the runner that are copied.

    Raises:
        ExportError: a weight cannot be stored.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for each in folder.glob("weights-*.safetensors"):
        each.unlink()
    plan = _Plan(session)
    described: list[Json] = []
    for number, shard in enumerate(_shards(plan.weights(weights)), 1):
        described += _written(folder, number, shard, plan)
    text = json.dumps(plan.described(described) | extra, separators=(",", ":"))
    shaders = "".join(f"//# {number}\n{source}\n" for source, number in plan.shaders.met.items())
    digest = hashlib.sha256(text.encode() + shaders.encode())
    for each in sorted(folder.glob("weights-*.safetensors")):
        with each.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    named = f'{{"hash":"{digest.hexdigest()[:16]}",{text[1:]}'
    (folder / "shaders.wgsl").write_text(shaders, encoding="utf-8")
    (folder / "plan.json").write_text(named, encoding="utf-8")
    for name in scripts:
        source = resources("webgpu_torch_web") / "runner" / name
        (folder / name).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
