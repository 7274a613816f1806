"""Files of torch.save: read without running them, and written so that torch reads them."""

from __future__ import annotations

import collections
import os
import pickle
import shutil
import tracemalloc
import zipfile

import pytest
import torch
import webgpu_torch_core as ours
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from webgpu_torch_core.files import HostStorage, HostTensor, UnpicklingError, read_pickle, write_pickle
from webgpu_torch_core.ir import dtypes

FIXED = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
KINDS = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64")


def storage_bytes(tensor):
    return bytes(tensor.untyped_storage())


def to_torch(tensor):
    """Turn a host tensor into a real one, with its strides."""
    data = bytearray(tensor.storage.data)
    kind = getattr(torch, tensor.dtype.name)
    flat = torch.frombuffer(data, dtype=kind) if data else torch.empty(0, dtype=kind)
    result = flat.as_strided(tensor.shape, tensor.strides, tensor.storage_offset)
    if tensor.is_parameter:
        return torch.nn.Parameter(result, tensor.requires_grad)
    return result.requires_grad_(tensor.requires_grad) if tensor.requires_grad else result


def same(left, right):
    if isinstance(right, torch.Tensor):
        return (
            type(left) is type(right)
            and left.dtype == right.dtype
            and left.stride() == right.stride()
            and left.requires_grad == right.requires_grad
            and torch.equal(left, right)
        )
    if isinstance(right, (list, tuple)):
        return type(left) is type(right) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(right, dict):
        return type(left) is type(right) and list(left) == list(right) and all(same(left[k], right[k]) for k in right)
    return type(left) is type(right) and left == right


def example():
    base = torch.arange(24.0)
    tensors = {kind: (torch.randn(2, 3) * 9).to(getattr(torch, kind)) for kind in KINDS}
    return {
        "tensors": tensors,
        "views": [base, base.view(4, 6).t(), base[3:7], base[::2]],
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "leaf": torch.ones(3, requires_grad=True),
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(5),
        "plain": [
            None,
            True,
            -7,
            300,
            2**31,
            -(2**70),
            2**1000,
            1.5,
            float("inf"),
            1 + 2j,
            "é\ud800",
            b"\x00\xff",
            b"",
        ],
        "sets": {1, "a", (1, 2)},
        ("a", 1): ((), (1,), (1, 2, 3, 4)),
        3: collections.OrderedDict(b=1, a=[]),
    }


def test_reads_what_torch_wrote(tmp_path):
    value = example()
    value["plain"].append(2**3000)  # weights_only=True of PyTorch itself reads integers up to 255 bytes
    torch.save(value, tmp_path / "x.pt")
    assert same(read_pickle(tmp_path / "x.pt", to_torch), value)
    host = read_pickle(tmp_path / "x.pt")
    assert len({id(view.storage) for view in host["views"]}) == 1
    assert host["parameter"].is_parameter
    assert host["parameter"].requires_grad
    assert not host["frozen"].requires_grad


def test_other_values(tmp_path):
    value = [torch.Size([2, 3]), torch.device("cuda:1"), torch.float16, torch.device("cpu")]
    torch.save(value, tmp_path / "x.pt")
    assert read_pickle(tmp_path / "x.pt") == [(2, 3), ours.device("cuda:1"), dtypes.float16, ours.device("cpu")]


def test_state_dict_keeps_its_metadata(tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    torch.save(module.state_dict(), tmp_path / "x.pt")
    read = read_pickle(tmp_path / "x.pt", to_torch)
    assert same(read, module.state_dict())
    assert read._metadata == module.state_dict()._metadata


def test_attributes_of_tensors(tmp_path):
    tensor, parameter = torch.ones(2), torch.nn.Parameter(torch.ones(2))
    tensor.note, parameter.note = "a", "b"
    torch.save([tensor, parameter], tmp_path / "x.pt")
    read = read_pickle(tmp_path / "x.pt")
    assert [each.attributes for each in read] == [{"note": "a"}, {"note": "b"}]
    assert [each.is_parameter for each in read] == [False, True]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickle_protocols(tmp_path, protocol):
    value = example()
    value["plain"].remove("é\ud800")  # torch.load reads no lone surrogates in protocol 4
    torch.save(value, tmp_path / "x.pt", pickle_protocol=protocol)
    assert same(read_pickle(tmp_path / "x.pt", to_torch), value)


def describe_with(storages):
    def describe(value):
        if not isinstance(value, torch.Tensor):
            return None
        key = value.untyped_storage().data_ptr() or id(value)
        kind = dtypes.BY_NAME[str(value.dtype).removeprefix("torch.")]
        if key not in storages:
            storages[key] = HostStorage(kind, storage_bytes(value.detach()))
        parameter = isinstance(value, torch.nn.Parameter)
        return HostTensor(
            storages[key], value.shape, value.stride(), value.storage_offset(), value.requires_grad, parameter
        )

    return describe


def test_torch_reads_what_we_wrote(tmp_path):
    value = example()
    write_pickle(tmp_path / "x.pt", value, describe_with({}))
    read = torch.load(tmp_path / "x.pt", weights_only=True)
    assert same(read, value)
    assert len({view.untyped_storage().data_ptr() for view in read["views"]}) == 1
    assert same(read_pickle(tmp_path / "x.pt", to_torch), value)
    assert [each.name for each in tmp_path.iterdir()] == ["x.pt"]
    mapped = torch.load(tmp_path / "x.pt", weights_only=True, mmap=True)
    assert same(mapped, value)


def test_shared_objects_and_cycles_survive(tmp_path):
    inner = [1]
    loop = [inner, inner]
    loop.append((loop,))
    ordered = collections.OrderedDict(a=1)
    ordered._metadata = collections.OrderedDict(version=2)
    write_pickle(tmp_path / "x.pt", [loop, ordered])
    for read in (read_pickle(tmp_path / "x.pt"), torch.load(tmp_path / "x.pt", weights_only=True)):
        assert read[0][0] is read[0][1]
        assert read[0][2][0] is read[0]
        assert read[1]._metadata == {"version": 2}


def test_a_written_parameter_keeps_attributes(tmp_path):
    parameter = HostTensor(HostStorage(dtypes.float32, bytes(8)), (2,), requires_grad=True, is_parameter=True)
    parameter.attributes = {"note": [1]}
    write_pickle(tmp_path / "x.pt", parameter)
    assert torch.load(tmp_path / "x.pt", weights_only=True).note == [1]
    assert read_pickle(tmp_path / "x.pt").attributes == {"note": [1]}


def test_objects_of_any_class_are_written_and_not_read(tmp_path):
    write_pickle(tmp_path / "x.pt", {"a": tmp_path})
    assert torch.load(tmp_path / "x.pt", weights_only=False) == {"a": tmp_path}
    with pytest.raises(UnpicklingError, match=r"pathlib\.PosixPath"):
        read_pickle(tmp_path / "x.pt")


def test_what_has_no_name_is_not_written(tmp_path):
    with pytest.raises(AttributeError, match="Can't pickle local object"):
        write_pickle(tmp_path / "x.pt", {"a": lambda: 1})
    assert not list(tmp_path.iterdir())


class Evil:
    def __init__(self, function, *arguments):
        self.parts = (function, arguments)

    def __reduce__(self):
        return self.parts


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (os.system, "posix.system"),
        (eval, "builtins.eval"),
        (shutil.rmtree, "shutil.rmtree"),
        (getattr, "builtins.getattr"),
    ],
)
def test_code_is_refused_by_name(tmp_path, function, name):
    torch.save({"a": Evil(function, "echo hacked")}, tmp_path / "x.pt")
    with pytest.raises(UnpicklingError, match=f"refused '{name}'"):
        read_pickle(tmp_path / "x.pt")


def archive(path, data, **entries):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x/data.pkl", data)
        for name, content in entries.items():
            file.writestr(f"x/{name}", content)


STORAGE = b"(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\0aX\x03\0\0\0cpuK\x02tQ"


def tensor_pickle(offset, shape, strides, storage=STORAGE):
    numbers = b"(" + b"".join(b"\x8a\x09" + n.to_bytes(9, "little", signed=True) for n in shape) + b"t"
    steps = b"(" + b"".join(b"\x8a\x09" + n.to_bytes(9, "little", signed=True) for n in strides) + b"t"
    start = b"\x8a\x09" + offset.to_bytes(9, "little", signed=True)
    return b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + storage + start + numbers + steps + b"\x89NtR."


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "truncated"),
        (b"\x80\x02.", "stack is empty"),
        (b"\x80\x02(K\x01", "truncated"),
        (b"\x80\x02X\xff\xff\xff\xffabc.", "truncated"),
        (b"\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.", "truncated"),
        (b"\x80\x02\x96\xff\xff\xff\xff\xff\xff\xff\x7f.", "opcode"),
        (b"\x80\x02Nr\xff\xff\xff\xff0}]Ns.", "keys are plain"),
        (b"\x80\x02}(K\x01u.", "without a value"),
        (b"\x80\x02h\x05.", "memo 5"),
        (b"\x80\x02K\x01K\x01R.", "cannot call"),
        (b"\x80\x02ctorch\nSize\nK\x01R.", "cannot call"),
        (b"\x80\x02ctorch\nTensor\n)R.", "refused to call 'torch.Tensor'"),
        (b"\x80\x02]K\x01Q.", "reference to a storage"),
        (b"\x80\x02]}b.", "give attributes"),
        (b"\x80\x01N.", "protocol 1"),
        (b"\x80\x02X\x01\0\0\0\xff.", "UTF-8"),
        (tensor_pickle(0, (3,), (1,)), "reaches beyond"),
        (tensor_pickle(1, (2,), (1,)), "reaches beyond"),
        (tensor_pickle(0, (2**62, 2**62), (2**62, 1)), "reaches beyond"),
        (tensor_pickle(0, (-1,), (1,)), "non-negative"),
        (tensor_pickle(0, (2,), (-1,)), "non-negative"),
        (tensor_pickle(0, (2, 2), (1,)), "cannot have strides"),
        (tensor_pickle(0, (2,), (1,), STORAGE.replace(b"0aX", b"0bX").replace(b"\0\0\0a", b"\0\0\0b")), "missing"),
        (tensor_pickle(0, (2,), (1,), STORAGE.replace(b"K\x02", b"K\x03")), "do not make its 8 bytes"),
        (tensor_pickle(0, (2,), (1,), STORAGE.replace(b"Float", b"QUInt4x2")), "QUInt4x2Storage"),
    ],
)
def test_malformed_pickles(tmp_path, data, message):
    archive(tmp_path / "x.pt", data, **{"data/a": bytes(8)})
    with pytest.raises(UnpicklingError) as caught:
        read_pickle(tmp_path / "x.pt")
    assert message in str(caught.value)
    assert "x.pt" in str(caught.value)


def test_endless_values_do_not_reach_messages(tmp_path):
    bomb = b"\x80\x02)" + b"".join(b"q" + bytes((i,)) + b"h" + bytes((i,)) + b"\x86" for i in range(200))
    archive(tmp_path / "x.pt", bomb + b"Q.")
    with pytest.raises(UnpicklingError, match="a tuple of 2"):
        read_pickle(tmp_path / "x.pt")


def test_copies_are_limited(tmp_path):
    text = b"X" + (10**6).to_bytes(4, "little") + b"a" * 10**6
    call = b"c_codecs\nencode\n(h\x00X\x06\0\0\0latin1tR"
    archive(tmp_path / "x.pt", b"\x80\x02" + text + b"q\x000](" + call * 100 + b"e.")
    with pytest.raises(UnpicklingError, match="copies more than it holds"):
        read_pickle(tmp_path / "x.pt")


def test_big_endian_files(tmp_path):
    archive(
        tmp_path / "x.pt", tensor_pickle(0, (2,), (1,)), **{"data/a": b"\x3f\x80\0\0\x40\0\0\0", "byteorder": b"big"}
    )
    assert read_pickle(tmp_path / "x.pt", to_torch).tolist() == [1.0, 2.0]


def test_other_formats_are_named(tmp_path):
    (tmp_path / "x.pt").write_bytes(pickle.dumps([1]))
    with pytest.raises(UnpicklingError, match="plain pickle"):
        read_pickle(tmp_path / "x.pt")
    (tmp_path / "x.pt").write_bytes(b"")
    with pytest.raises(UnpicklingError, match="0 bytes"):
        read_pickle(tmp_path / "x.pt")
    archive(tmp_path / "x.pt", b"\x80\x02N.", **{"constants.pkl": b""})
    with pytest.raises(UnpicklingError, match="TorchScript"):
        read_pickle(tmp_path / "x.pt")
    with pytest.raises(FileNotFoundError):
        read_pickle(tmp_path / "nothing")
    with zipfile.ZipFile(tmp_path / "x.pt", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("x/data.pkl", bytes(10**6))
    with pytest.raises(UnpicklingError, match="compressed"):
        read_pickle(tmp_path / "x.pt")


@FIXED
@given(st.data())
def test_damaged_files_are_refused_or_read(tmp_path, data):
    path = tmp_path / "x.pt"
    if not (tmp_path / "seed").exists():
        torch.save({"a": torch.ones(2, 2), "b": [torch.nn.Parameter(torch.ones(3)), "text", 2**40]}, tmp_path / "seed")
    blob = bytearray((tmp_path / "seed").read_bytes())
    region = (0, 400) if data.draw(st.booleans()) else (0, len(blob) - 1)
    for _ in range(data.draw(st.integers(1, 4))):
        blob[data.draw(st.integers(*region))] = data.draw(st.integers(0, 255))
    blob = blob[: data.draw(st.integers(0, len(blob)))] if data.draw(st.booleans()) else blob
    path.write_bytes(blob)
    tracemalloc.start()
    try:
        read_pickle(path)
    except UnpicklingError as error:
        assert "x.pt" in str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 4_000_000


@FIXED
@given(st.binary(max_size=60))
def test_any_bytes_as_a_pickle(tmp_path, data):
    archive(tmp_path / "x.pt", b"\x80\x02" + data)
    try:
        read_pickle(tmp_path / "x.pt")
    except UnpicklingError as error:
        assert "x.pt" in str(error)


def test_entries_that_overlap_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.pt", "w") as file:
        file.writestr("x/data.pkl", b"\x80\x02}.")
        file.writestr("x/data/0", bytes(4096))
        first = file.infolist()[1]
        twin = zipfile.ZipInfo("x/data/1")
        for name in ("header_offset", "file_size", "compress_size", "CRC"):
            setattr(twin, name, getattr(first, name))
        file.filelist.append(twin)
    with pytest.raises(UnpicklingError, match=r"x\.pt.*'x/data/1' at byte \d+ overlaps entry 'x/data/0'"):
        read_pickle(tmp_path / "x.pt")


def ordered_dict_with(name):
    return b"\x80\x02ccollections\nOrderedDict\n)R}X" + len(name).to_bytes(4, "little") + name + b"Nsb."


def test_state_of_dictionaries_is_their_metadata_only(tmp_path):
    archive(tmp_path / "x.pt", ordered_dict_with(b"_metadata"))
    assert read_pickle(tmp_path / "x.pt")._metadata is None
    archive(tmp_path / "x.pt", ordered_dict_with(b"items"))
    with pytest.raises(UnpicklingError, match="refused to give attributes to a OrderedDict"):
        read_pickle(tmp_path / "x.pt")


def test_errors_name_the_key_and_are_value_errors(tmp_path):
    torch.save({"first": torch.ones(2), "second.weight": torch.ones(3)}, tmp_path / "x.pt")
    with zipfile.ZipFile(tmp_path / "x.pt") as file, zipfile.ZipFile(tmp_path / "y.pt", "w") as cut:
        for entry in file.namelist():
            if not entry.endswith("data/1"):
                cut.writestr(entry, file.read(entry))
    with pytest.raises(ValueError, match=r"y\.pt.*storage '1' is missing.*read after 'second\.weight'") as caught:
        read_pickle(tmp_path / "y.pt")
    assert isinstance(caught.value, UnpicklingError)


def test_what_makes_tensors_fails_with_the_files_name(tmp_path):
    def refuse(host):
        raise RuntimeError("only floating-point tensors can require gradients")

    torch.save({"a": torch.ones(2)}, tmp_path / "x.pt")
    with pytest.raises(UnpicklingError, match=r"x\.pt.*only floating-point.*read after 'a'"):
        read_pickle(tmp_path / "x.pt", refuse)


def test_a_place_that_takes_no_file_keeps_nothing(tmp_path):
    """A missing folder is named as PyTorch names it; where the name is taken by a folder, nothing half-written stays."""
    missing = tmp_path / "missing" / "x.pt"
    for library in (torch, ours):
        with pytest.raises(RuntimeError, match=r"Parent directory .*missing does not exist"):
            library.save([1], missing)
    (tmp_path / "taken").mkdir()
    for library in (torch, ours):
        with pytest.raises(RuntimeError):
            library.save([1], tmp_path / "taken")
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]
