"""Files of exported programs: PyTorch's archives (``.pt2``), which it reads and which are read from it.

An archive is a ZIP file with the graph as JSON, the tensors as their bytes, and the example inputs. The layout is that of
``torch/_export/serde/schema.py`` and ``torch/export/pt2_archive``, version 8.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any, TypeAlias

import webgpu_torch as torch
from webgpu_torch_core import Tensor
from webgpu_torch_nn import Module, Parameter

from webgpu_torch_tools.fx import Graph

from .exported_program import ExportedProgram
from .graph_json import DTYPES, graph_json, program_parts, tensor_json

Value: TypeAlias = Any
_MODEL, _WEIGHTS, _CONSTANTS = "models/model.json", "data/weights/", "data/constants/"
_CONFIGS = {_WEIGHTS: "model_weights_config.json", _CONSTANTS: "model_constants_config.json"}
_INPUTS = "data/sample_inputs/model.pt"


def _bytes_of(tensor: Tensor) -> bytes:
    plain = tensor.detach().cpu().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""


def _write_tensors(archive: zipfile.ZipFile, root: str, folder: str, stem: str, tensors: dict[str, Tensor]) -> None:
    config: dict[str, Value] = {}
    for count, (path, tensor) in enumerate(tensors.items()):
        name = f"{stem}_{count}"
        archive.writestr(f"{root}/{folder}{name}", _bytes_of(tensor))
        config[path] = {
            "path_name": name, "is_param": isinstance(tensor, Parameter), "use_pickle": False,
            "tensor_meta": tensor_json(tensor.detach().contiguous(), tensor.requires_grad),
        }  # fmt: skip
    archive.writestr(f"{root}/{folder}{_CONFIGS[folder]}", json.dumps({"config": config}))


def save(
    ep: ExportedProgram, f: Value, *, extra_files: dict[str, Value] | None = None, opset_version: dict[str, int] | None = None,
    pickle_protocol: int = 2,
) -> None:  # fmt: skip
    """Write an exported program into an archive of PyTorch's.

    Args:
        ep: the program.
        f: a path, or a file that is open.
        extra_files: texts to keep in the archive, by name.

    Raises:
        TypeError: no exported program.
        NotImplementedError: an argument, or a structure of inputs, that these archives have no form for.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    root = Path(f).stem if isinstance(f, str | os.PathLike) else "archive"
    with zipfile.ZipFile(f, "w", zipfile.ZIP_STORED) as archive:
        _write_tensors(archive, root, _WEIGHTS, "weight", dict(ep.state_dict))
        _write_tensors(archive, root, _CONSTANTS, "tensor", ep.constants)
        archive.writestr(f"{root}/{_MODEL}", json.dumps(graph_json(ep)))
        inputs = io.BytesIO()
        torch.save(ep.example_inputs, inputs)
        archive.writestr(f"{root}/{_INPUTS}", inputs.getvalue())
        for name, text in (extra_files or {}).items():
            archive.writestr(f"{root}/extra/{name}", text)
        for name, text in (
            ("archive_format", "pt2"),
            ("archive_version", "0"),
            (".data/version", "6\n"),
            ("byteorder", "little"),
        ):
            archive.writestr(f"{root}/{name}", text)


def _read_tensors(archive: zipfile.ZipFile, root: str, folder: str) -> dict[str, Value]:
    config = json.loads(archive.read(f"{root}/{folder}{_CONFIGS[folder]}"))["config"]
    found: dict[str, Value] = {}
    for path, entry in config.items():
        content = archive.read(f"{root}/{folder}{entry['path_name']}")
        if entry["use_pickle"]:
            found[path] = torch.load(io.BytesIO(content), weights_only=True)
        else:
            found[path] = _tensor_of(content, entry["tensor_meta"])
        if entry["is_param"]:
            found[path] = Parameter(found[path], requires_grad=entry["tensor_meta"]["requires_grad"])
    return found


def _tensor_of(content: bytes, meta: dict[str, Value]) -> Tensor:
    sizes, strides = ([each["as_int"] for each in meta[name]] for name in ("sizes", "strides"))
    dtype = DTYPES[meta["dtype"]]
    if not content:
        return torch.empty(sizes, dtype=dtype)
    return torch.frombuffer(bytearray(content), dtype=dtype).as_strided(
        sizes, strides, meta["storage_offset"]["as_int"]
    )


def load(
    f: Value, *, extra_files: dict[str, Value] | None = None, expected_opset_version: Value = None
) -> ExportedProgram:
    """Return the program of an archive, PyTorch's own among them.

    Args:
        f: a path, or a file that is open.
        extra_files: texts that the archive keeps are put under the names in it.

    Raises:
        RuntimeError: no archive of an exported program.
        NotImplementedError: the program has operations, or values, that are not here.
    """
    try:
        archive = zipfile.ZipFile(f)
    except zipfile.BadZipFile as error:
        raise RuntimeError(f"{f} is no archive of an exported program (.pt2)") from error
    with archive:
        names = archive.namelist()
        model = next((each for each in names if each.endswith(_MODEL)), None)
        if model is None:
            raise RuntimeError(f"{f} has no {_MODEL}: it is no archive of an exported program (.pt2)")
        root = model.removesuffix(f"/{_MODEL}")
        state, constants = (_read_tensors(archive, root, each) for each in (_WEIGHTS, _CONSTANTS))
        inputs = None
        if f"{root}/{_INPUTS}" in names:
            inputs = torch.load(io.BytesIO(archive.read(f"{root}/{_INPUTS}")), weights_only=True)
        for name in extra_files or {}:
            extra_files[name] = archive.read(f"{root}/extra/{name}").decode()  # type: ignore[index]
        graph = Graph()
        signature, entries, ranges = program_parts(json.loads(archive.read(model)), graph)
    return ExportedProgram(Module(), graph, signature, state, ranges, entries, inputs, constants)
