"""Damages files and model folders at random and loads them; prints what went wrong as JSON. Run as a program.

Every load must succeed or raise a ValueError or an OSError that names the file, within ten seconds, a gibibyte more memory than
before, and without opening a file outside of the folder.
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import warnings
import zipfile
from pathlib import Path

import webgpu_torch_core as torch
import webgpu_torch_models as models
from webgpu_torch_core.config import cache_directory
from webgpu_torch_core.files import load_safetensors
from webgpu_torch_models.gpt2 import GPT2Config, GPT2LMHeadModel

SECONDS, MEMORY = 10, 1 << 30
NUMBERS = [
    0,
    -1,
    1,
    3,
    10**6,
    10**12,
    2**63,
    10**30,
    0.5,
    1e308,
    -0.0,
    True,
    None,
    "8",
    "",
    [],
    [1],
    {},
    {"a": 1},
    "x" * 10**6,
]
NAMES = [
    "../other/model.safetensors", "/etc/passwd", "/proc/self/environ", "..", ".", "", "a/b", "nul\0l", "c:x", 3, None, [], {},
    "model.safetensors" * 10_000, "~/x", "\\\\server\\x", "lone \ud800 surrogate",
]  # fmt: skip
TEXTS = [
    b"", b"{", b"[]", b"3", b"null", b'"x"', b"[" * 200_000, b'{"a":' * 100_000, b"\xff\xfe{}", b'{"n_layer": ' + b"9" * 6000 + b"}",
    b'{"n_embd": NaN}', b'{"n_head": Infinity}', b"\0" * 100, b'{"model_type": "gpt2"}', b"{}",
]  # fmt: skip
CONFIG = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"]


def make_models(base: Path) -> list[Path]:
    """Write a folder in each layout."""
    model = GPT2LMHeadModel(GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=2, n_head=2))
    folders = [base / name for name in ("whole", "shards", "pickle", "pickle_shards")]
    model.save_pretrained(folders[0])
    model.save_pretrained(folders[1], max_shard_size=2000)
    weights = {key: value for key, value in model.state_dict().items() if key != "lm_head.weight"}
    for folder in folders[2:]:
        model.save_pretrained(folder)
        (folder / "model.safetensors").unlink()
    torch.save(weights, folders[2] / "pytorch_model.bin")
    torch.save(weights, folders[3] / "part-1.bin")
    index = {"weight_map": dict.fromkeys(weights, "part-1.bin")}
    (folders[3] / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
        "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "?": 2}, "unk_token": "?"},
    }  # fmt: skip
    for folder in folders:
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "a"}))
    return folders


def damage_bytes(path: Path, draw: random.Random) -> str:
    """Flip, cut, insert or repeat bytes of a file."""
    data = bytearray(path.read_bytes())
    how = draw.choice(["flip", "cut", "insert", "drop", "swap", "word"])
    at = draw.randrange(min(len(data), draw.choice([64, 2000, 10**9]))) if data else 0
    if how == "flip" and data:
        for _ in range(draw.choice([1, 1, 8, 100])):
            data[(at + draw.randrange(64)) % len(data)] ^= 1 << draw.randrange(8)
    elif how == "cut":
        del data[at:]
    elif how == "insert":
        data[at:at] = draw.randbytes(draw.choice([1, 4, 100]))
    elif how == "drop":
        del data[at : at + draw.choice([1, 4, 100])]
    elif how == "word":
        data[at : at + 8] = draw.choice([0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1]).to_bytes(8, "little")
    else:
        data[at : at + 8], data[-8:] = data[-8:], data[at : at + 8]
    path.write_bytes(data)
    return how


def damage_json(path: Path, draw: random.Random) -> str:
    """Replace a value or a key of a JSON file, or the whole text."""
    if draw.random() < 0.25:
        path.write_bytes(draw.choice(TEXTS))
        return "text"
    value = json.loads(path.read_text())
    inside = value
    while True:
        key = draw.choice(list(inside))
        if not (isinstance(inside[key], dict) and inside[key] and draw.random() < 0.8):
            break
        inside = inside[key]
    if draw.random() < 0.1:
        inside["k" * 100_000] = inside.pop(key)
    elif draw.random() < 0.1:
        del inside[key]
    else:
        inside[key] = draw.choice(NAMES if isinstance(inside[key], str) else NUMBERS)
    path.write_text(json.dumps(value))
    return f"{key} = {inside.get(key)!r:.60}"


def replace_pickle(path: Path, draw: random.Random) -> str:
    """Write another object in place of the weights, or an archive whose entries overlap."""
    if draw.random() < 0.3:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x/data.pkl", b"\x80\x02}.")
            archive.writestr("x/data/0", bytes(4096))
            first = archive.infolist()[1]
            for number in range(1, draw.choice([2, 300])):
                twin = zipfile.ZipInfo(f"x/data/{number}")
                for name in ("header_offset", "file_size", "compress_size", "CRC"):
                    setattr(twin, name, getattr(first, name))
                archive.filelist.append(twin)
        return "overlap"
    ones = torch.ones(3)
    found = draw.choice(
        [[ones], 3, "x", {"a": 3}, {3: ones}, {"a": None}, {"a" * 10**6: ones}, {"a": [ones]}, {}, ones, None]
    )
    torch.save(found, path)
    return f"object {type(found).__name__}"


def damage(folder: Path, draw: random.Random) -> str:
    """Damage one file of a folder; return what was done."""
    paths = sorted(each for each in folder.iterdir() if each.is_file())
    path = draw.choice(paths)
    kind = draw.random()
    if path.suffix == ".json" and kind < 0.75:
        return f"{path.name}: {damage_json(path, draw)}"
    if path.suffix == ".bin" and kind < 0.35:
        return f"{path.name}: {replace_pickle(path, draw)}"
    if kind > 0.95:
        path.unlink()
        return f"{path.name}: gone"
    return f"{path.name}: {damage_bytes(path, draw)}"


class Watch:
    """What is opened for reading while something loads, but for Python's, ours, and what we compiled before."""

    def __init__(self) -> None:
        self.inside: Path | None = None
        self.strangers: list[str] = []
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple) -> None:
        if event != "open" or self.inside is None or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        path = os.path.abspath(os.fsdecode(arguments[0]))
        own = (sys.prefix, sys.base_prefix, str(Path(torch.__file__).parents[3]), str(cache_directory() or sys.prefix))
        if not path.startswith((str(self.inside), *own)):
            self.strangers.append(path)


def load(folder: Path, path: Path, how: int) -> None:
    """Load the folder as a user would, or one file of it."""
    if how == 0:
        models.AutoModelForCausalLM.from_pretrained(folder, device="cpu")(
            torch.zeros(1, 2, dtype=torch.int64, device="cpu")
        )
    elif how == 1:
        models.AutoTokenizer.from_pretrained(folder)
    elif path.suffix == ".bin":
        torch.load(path, map_location="cpu")
    elif path.suffix == ".safetensors":
        load_safetensors(path)
    else:
        models.AutoConfig.from_pretrained(folder)


def problem_of(error: BaseException, folder: Path) -> str | None:
    """Return what is wrong with how a load failed."""
    text = str(error)
    if not isinstance(error, ValueError | OSError):
        return f"{type(error).__name__}: {text[:300]}"
    if str(folder) not in text:
        return f"no file named: {type(error).__name__}: {text[:300]}"
    return f"{len(text)} characters" if len(text) > 8000 else None


def expire(*_: object) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds")


def main(count: int, seed: int) -> dict:
    """Try ``count`` damages; return how many loads failed as they should, how many succeeded, and the problems."""
    base = Path(tempfile.mkdtemp())
    warnings.simplefilter("ignore")
    folders = make_models(base)
    for each in folders:
        load(each, each, 0)
        load(each, each, 1)
    watch, draw = Watch(), random.Random(seed)
    signal.signal(signal.SIGALRM, expire)
    result: dict = {"refused": 0, "loaded": 0, "problems": []}
    with open("/proc/self/statm") as statm:
        limit = int(statm.read().split()[0]) * 4096 + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    for number in range(count):
        folder = base / f"damaged{number}"
        shutil.copytree(draw.choice(folders), folder)
        what = damage(folder, draw)
        name = what.partition(":")[0]
        how = draw.choice([0, 0, 2]) if "token" not in name else 1
        signal.alarm(SECONDS)
        watch.inside, watch.strangers = folder, []
        problem = None
        try:
            load(folder, folder / name, how)
            result["loaded"] += 1
        except BaseException as error:
            problem = problem_of(error, folder)
            result["refused"] += problem is None
        finally:
            signal.alarm(0)
            watch.inside = None
        problem = problem or (f"opened {watch.strangers[0]}" if watch.strangers else None)
        if problem:
            result["problems"].append(f"seed {seed}, {number}, way {how}: {what}: {problem}")
        shutil.rmtree(folder)
    shutil.rmtree(base)
    return result


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]))))
