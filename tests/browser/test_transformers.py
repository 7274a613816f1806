"""Unmodified transformers in a page."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib import metadata, util
from pathlib import Path
from typing import Any

import pytest
import webgpu_torch as torch
from engines import PROGRAMS, Python

#: what transformers imports of what is Python only, and what makes it find this library
PACKAGES = (
    "transformers", "huggingface_hub", "filelock", "tqdm", "packaging", "pyyaml", "jinja2", "markupsafe", "typing_extensions",
    "httpx2", "httpcore2", "h11", "anyio", "sniffio", "idna", "truststore", "webgpu-torch-drop-in",
)  # fmt: skip
#: of transformers' models only these, for there are hundreds
MODELS = ("__init__.py", "auto/", "encoder_decoder/", "llama/")


def files_of(distribution: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and bytes of an installed package's Python, its data and what tells its version."""
    found = metadata.distribution(distribution)
    name = distribution.replace("-", "_")
    module = {"pyyaml": "yaml"}.get(name, name)
    yield f"{name}-{found.version}.dist-info/METADATA", (found.read_text("METADATA") or "").encode()
    spec = util.find_spec(module)
    assert spec is not None and spec.origin is not None
    if not spec.submodule_search_locations:
        yield f"{module}.py", Path(spec.origin).read_bytes()
        return
    root = Path(spec.origin).parent
    for path in root.rglob("*"):
        name = path.relative_to(root).as_posix()
        unused = name.startswith("models/") and not name.removeprefix("models/").startswith(MODELS)
        if path.suffix in (".py", ".xz", ".bin") and not (module == "transformers" and unused):
            yield f"{module}/{name}", path.read_bytes()


def tokenizers(folder: Path) -> None:
    """Write folders of tokenizers that the compiled package makes, and texts for them."""
    library = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    decoders, normalizers, splits = library.decoders, library.normalizers, library.pre_tokenizers
    corpus = [Path(__file__).read_text(encoding="utf-8"), *["the tensors of a page, Grüße, 你好 мир"] * 9]
    end, options = "<|endoftext|>", {"show_progress": False, "vocab_size": 420}

    def trained(model: Any, trainer: Any, split: Any) -> Any:
        made = library.Tokenizer(model)
        made.pre_tokenizer = split
        made.train_from_iterator(corpus, trainer)
        return made

    words = library.Regex(r"(?i:'s|'t|'ll)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+(?!\S)|\s+")
    split = splits.Sequence([splits.Split(words, "isolated"), splits.ByteLevel(False, use_regex=False)])
    trainer = library.trainers.BpeTrainer(special_tokens=[end], initial_alphabet=splits.ByteLevel.alphabet(), **options)
    in_bytes = trained(library.models.BPE(), trainer, split)
    in_bytes.decoder, in_bytes.normalizer = decoders.ByteLevel(), normalizers.NFC()
    in_bytes.post_processor = library.processors.TemplateProcessing(f"{end} $A", special_tokens=[(end, 0)])
    named = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = library.trainers.BpeTrainer(special_tokens=named, limit_alphabet=50, **options)
    fallback = trained(library.models.BPE(unk_token="<unk>", byte_fallback=True), trainer, splits.Metaspace())
    fallback.decoder = decoders.Sequence([decoders.Metaspace(), decoders.ByteFallback(), decoders.Fuse()])
    named = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = library.trainers.WordPieceTrainer(special_tokens=named, **options)
    pieces = trained(library.models.WordPiece(unk_token="[UNK]"), trainer, splits.BertPreTokenizer())
    pieces.normalizer, pieces.decoder = normalizers.BertNormalizer(), decoders.WordPiece()
    pieces.post_processor = library.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    for name, made, padding in (("bytes", in_bytes, end), ("fallback", fallback, "</s>"), ("pieces", pieces, "[PAD]")):
        transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token=padding).save_pretrained(folder / name)
    parts = [
        "the tensors ",
        "Page, ",
        "é",
        "e\u0301",
        "你好",
        " 1234",
        "\n",
        "  ",
        "it's ",
        "IT'LL",
        "\U0001f469",
        "мир ",
        end,
        "</s>",
        "!?",
    ]
    draw = random.Random(0)
    texts = ["".join(draw.choices(parts, k=draw.randint(0, 9))) for _ in range(150)]
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")


@pytest.fixture(scope="module")
def packages(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Put the packages where pages find them, and return the folder of tokenizers among them."""
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("tiny_tokenizers")
    tokenizers(folder)
    with zipfile.ZipFile(site / "packages.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for distribution in PACKAGES:
            for name, data in files_of(distribution):
                archive.writestr(name, data)
        for path in folder.rglob("*.json"):
            archive.write(path, f"tiny_tokenizers/{path.relative_to(folder).as_posix()}")
    return folder


def run_in_both(opened: Callable[[str], Any], program: str, *given: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a program prints in a page and in this Python."""
    page = opened("index.html")
    python = Python(page)
    python.run_file("stand_ins.py")
    page.evaluate("document.getElementById('output').replaceChildren()")
    python.run_file(program)
    here = json.loads(page.inner_text("#output").strip().splitlines()[-1])
    assert page.problems == []
    page.close()
    command = [sys.executable, str(PROGRAMS / program), *given]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return here, json.loads(done.stdout.strip().splitlines()[-1])


@pytest.mark.slow
def test_a_tiny_llama_of_transformers(opened: Callable[[str], Any], packages: Path) -> None:
    here, natively = run_in_both(opened, "transformers_tiny.py")
    assert here["device"] == "webgpu" and here["tokens"] == natively["tokens"]
    torch.testing.assert_close(torch.tensor(here["logits"]), torch.tensor(natively["logits"]), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_texts_by_tokenizers_of_transformers(opened: Callable[[str], Any], packages: Path) -> None:
    """The page has the package tokenizers in Python, this machine the compiled one: their tokens and texts are the same."""
    here, natively = run_in_both(opened, "transformers_text.py", str(packages))
    assert here == natively
    assert natively["encoded"].keys() == {"bytes", "fallback", "pieces"} and natively["written"][0].startswith(
        "the tensors of a page"
    )
