"""Text to tokens and back, for the tokenizer.json files of Hugging Face models."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from webgpu_torch_core.files.host_tensors import brief

from webgpu_torch_models.chat import render
from webgpu_torch_models.config import read_json, write_json
from webgpu_torch_models.hub import TOKENIZER_PATTERNS, find_folder

TOKENIZER_FILE = "tokenizer.json"
CHAT_TEMPLATE_FILE = "chat_template.jinja"
REPLACEMENT = "\ufffd"
SPECIAL_TOKENS = ("bos_token", "eos_token", "pad_token", "unk_token", "mask_token", "cls_token", "sep_token")


def _library() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise ImportError("reading tokenizers needs the package tokenizers; install it") from error
    return tokenizers


class Encoded(NamedTuple):
    """A text, or two, as tokens.

    Attributes:
        ids: of the tokens.
        segments: which text a token is of, as networks with segments are told it.
        texts: which text a token is of; None for tokens that no text has.
        offsets: where in its text a token starts and ends.
        words: where in its text the word starts and ends that a token is of; None where it is of none.
    """

    ids: list[int]
    segments: list[int]
    texts: list[int | None]
    offsets: list[tuple[int, int]]
    words: list[tuple[int, int] | None]


def _described(encoding: Any) -> Encoded:
    texts = list(encoding.sequence_ids)
    words = [
        None if text is None or word is None else encoding.word_to_chars(word, text)
        for text, word in zip(texts, encoding.word_ids, strict=True)
    ]
    return Encoded(encoding.ids, encoding.type_ids, texts, encoding.offsets, words)


class Tokenizer:
    """A tokenizer of the ``tokenizers`` library and the names of its special tokens.

    Args:
        tokenizer: a ``tokenizers.Tokenizer``.
        special_tokens: "bos_token", "eos_token", "pad_token", "mask_token" and others by text.
        chat_template: how a conversation is written, in Jinja; None where the model has none.
    """

    def __init__(
        self, tokenizer: Any, special_tokens: dict[str, str] | None = None, chat_template: str | None = None
    ) -> None:
        self.backend = tokenizer
        self.special_tokens = dict(special_tokens or {})
        self.chat_template = chat_template

    def __len__(self) -> int:
        return self.backend.get_vocab_size()

    def _id(self, name: str) -> int | None:
        text = self.special_tokens.get(name)
        return None if text is None else self.backend.token_to_id(text)

    @property
    def bos_token_id(self) -> int | None:
        """The token at the start of a sequence."""
        return self._id("bos_token")

    @property
    def eos_token_id(self) -> int | None:
        """The token at the end of a sequence."""
        return self._id("eos_token")

    @property
    def mask_token_id(self) -> int | None:
        """The token of a word that is to be named."""
        return self._id("mask_token")

    @property
    def pad_token_id(self) -> int | None:
        """The token of padding."""
        return self._id("pad_token")

    @property
    def unk_token_id(self) -> int | None:
        """The token of what the vocabulary has no other for."""
        return self._id("unk_token")

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Return the tokens of a text.

        Raises:
            ValueError: the tokenizer has no token for a part of it.
        """
        try:
            return self.backend.encode(text, add_special_tokens=add_special_tokens).ids
        except Exception as error:
            if type(error) is not Exception:
                raise
            # The library raises the base class.
            raise ValueError(f"{brief(text)} cannot be encoded: {error}") from error

    def encode_windows(
        self, text: str, pair: str | None = None, limit: int | None = None, stride: int = 0
    ) -> list[Encoded]:
        """Return a text, or two, as tokens with their places; more than ``limit`` tokens become several windows.

        Args:
            text: the first text.
            pair: the second one, which is what windows divide.
            limit: tokens of a window, both texts and special tokens counted; None is no limit.
            stride: how many tokens neighbouring windows have in common.

        Raises:
            ValueError: the tokenizer has no token for a part of them, or the first text leaves no room.
        """
        try:
            if limit is not None:
                self.backend.enable_truncation(
                    limit, stride=stride, strategy="only_first" if pair is None else "only_second"
                )
            found = self.backend.encode(text, pair)
        except BaseException as error:
            if isinstance(error, Exception) or type(error).__name__ == "PanicException":
                raise ValueError(f"{brief(text)} cannot be encoded within {limit} tokens: {error}") from error
            raise
        finally:
            if limit is not None:
                self.backend.no_truncation()
        return [_described(each) for each in (found, *found.overflowing)]

    def join(self, ids: list[int]) -> str:
        """Return the text of a word's tokens, special tokens included."""
        tokens = [self.backend.id_to_token(each) for each in ids]
        return " ".join(tokens) if self.backend.decoder is None else self.backend.decoder.decode(tokens)

    def encode_batch(
        self, texts: list[str], add_special_tokens: bool = True
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Return the tokens of texts, padded on the left to one length, and the mask that is 0 at padding.

        Raises:
            ValueError: the tokenizer has no token for a part of them, or none for padding or ends where it needs one.
        """
        rows = [self.encode(each, add_special_tokens) for each in texts]
        length = max(map(len, rows), default=0)
        filler = self.eos_token_id if self.pad_token_id is None else self.pad_token_id
        if filler is None and any(len(each) < length for each in rows):
            raise ValueError(
                "texts of different lengths need a token of padding; the tokenizer names neither that nor an end"
            )
        counts = [length - len(each) for each in rows]
        padded = [[filler or 0] * count + row for count, row in zip(counts, rows, strict=True)]
        return padded, [[0] * count + [1] * (length - count) for count in counts]

    def apply_chat_template(
        self, messages: list[dict[str, object]], add_generation_prompt: bool = True, **variables: object
    ) -> str:
        """Return a conversation as the text that the model was trained on; encode it without special tokens.

        Args:
            messages: each with "role" and "content".
            add_generation_prompt: end with how an answer begins.
            variables: what else the template reads: ``tools``, ``documents`` and so on.

        Raises:
            ImportError: jinja2 is not installed.
            ValueError: the model has no template, or the template refuses the messages.
        """
        if self.chat_template is None:
            raise ValueError("this tokenizer has no chat_template: the model was not made for conversations")
        given = {
            **self.special_tokens,
            "messages": messages,
            "add_generation_prompt": add_generation_prompt,
            **variables,
        }
        return render(self.chat_template, given)

    def decode(self, ids: Any, skip_special_tokens: bool = False) -> str:
        """Return the text of tokens, given as a list or a 1-d tensor."""
        ids = ids.tolist() if hasattr(ids, "tolist") else list(ids)
        return self.backend.decode(ids, skip_special_tokens=skip_special_tokens)

    def stream(self, skip_special_tokens: bool = True) -> TextStream:
        """Return a decoder that takes one token at a time."""
        return TextStream(self, skip_special_tokens)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write tokenizer.json and tokenizer_config.json."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.backend.save(str(folder / TOKENIZER_FILE))
        values: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", **self.special_tokens}
        if self.chat_template is not None:
            values["chat_template"] = self.chat_template
        write_json(folder / "tokenizer_config.json", values)


class TextStream:
    """Turn tokens into text as they come, holding back characters that are not complete yet.

    A character may take several tokens, and a token's text may depend on the one before it (as leading spaces do),
    so a few tokens are decoded again each time: those since the last piece of text but one.
    """

    def __init__(self, tokenizer: Tokenizer, skip_special_tokens: bool = True) -> None:
        self.tokenizer = tokenizer
        self.skip_special_tokens = skip_special_tokens
        self.ids: list[int] = []
        self._start = 0
        self._given = 0

    def _decode(self, end: int | None = None) -> str:
        return self.tokenizer.decode(self.ids[self._start : end], self.skip_special_tokens)

    def put(self, ids: int | Iterable[int]) -> str:
        """Add a token or several; return the text that has become certain."""
        self.ids.extend([ids] if isinstance(ids, int) else ids)
        return self._take(final=False)

    def end(self) -> str:
        """Return the text that was held back."""
        return self._take(final=True)

    def _take(self, final: bool) -> str:
        before, now = self._decode(self._given), self._decode()
        if len(now) <= len(before) or (now.endswith(REPLACEMENT) and not final):
            return ""
        self._start, self._given = self._given, len(self.ids)
        return now[len(before) :]


def _read(reader: Any, *paths: Path) -> Any:
    """Return what the library reads from files; what it raises (bare exceptions, and panics) becomes a ValueError."""
    try:
        return reader(*map(str, paths))
    except BaseException as error:
        if isinstance(error, OSError) or not (isinstance(error, Exception) or type(error).__name__ == "PanicException"):
            raise
        names = " and ".join(map(str, paths))
        raise ValueError(f"{names} cannot be read as a tokenizer: {str(error)[:400]}") from error


def _special_tokens(folder: Path) -> dict[str, str]:
    """Return the special tokens named in tokenizer_config.json or special_tokens_map.json."""
    result: dict[str, str] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        path = folder / name
        values = read_json(path) if path.is_file() else {}
        for key in SPECIAL_TOKENS:
            value = values.get(key)
            value = value.get("content") if isinstance(value, dict) else value
            if isinstance(value, str):
                result[key] = value
    return result


def _chat_template(folder: Path) -> str | None:
    """Return the template in chat_template.jinja or tokenizer_config.json, of several the one called "default"."""
    if (folder / CHAT_TEMPLATE_FILE).is_file():
        return (folder / CHAT_TEMPLATE_FILE).read_text(encoding="utf-8")
    path = folder / "tokenizer_config.json"
    found = read_json(path).get("chat_template") if path.is_file() else None
    if isinstance(found, list):
        named = {each.get("name"): each.get("template") for each in found if isinstance(each, dict)}
        found = named.get("default")
    if found is not None and not isinstance(found, str):
        raise ValueError(f"{path}: chat_template is {brief(found)}, expected a text, or texts by name")
    return found


def _is_clip(folder: Path) -> bool:
    path = folder / "tokenizer_config.json"
    return path.is_file() and str(read_json(path).get("tokenizer_class", "")).startswith("CLIPTokenizer")


def _clip_tokenizer(vocabulary: str, merges: str) -> Any:
    """Return CLIP's tokenizer: lower case, words by their kind of characters, merges that know where words end."""
    library = _library()
    start, end = "<|startoftext|>", "<|endoftext|>"
    backend = library.Tokenizer(
        library.models.BPE.from_file(vocabulary, merges, unk_token=end, end_of_word_suffix="</w>")
    )
    spaces = library.normalizers.Replace(library.Regex(r"\s+"), " ")
    backend.normalizer = library.normalizers.Sequence(
        [library.normalizers.NFC(), spaces, library.normalizers.Lowercase()]
    )
    words = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    backend.pre_tokenizer = library.pre_tokenizers.Sequence(
        [
            library.pre_tokenizers.Split(library.Regex(words), behavior="removed", invert=True),
            library.pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    backend.decoder = library.decoders.ByteLevel()
    backend.add_special_tokens([start, end])
    ends = ((each, backend.token_to_id(each)) for each in (end, start))
    backend.post_processor = library.processors.RobertaProcessing(*ends, trim_offsets=False, add_prefix_space=False)
    return backend


class AutoTokenizer:
    """Tokenizers by name."""

    @staticmethod
    def from_pretrained(
        name_or_path: str | Path, *, token: str | None = None, revision: str | None = None
    ) -> Tokenizer:
        """Load the tokenizer of a local folder or hub id.

        Raises:
            FileNotFoundError: there is no such model, or it has neither tokenizer.json nor vocab.json and merges.txt.
            ValueError: these files describe no tokenizer.
        """
        folder = find_folder(name_or_path, token=token, revision=revision, patterns=TOKENIZER_PATTERNS)
        library = _library()
        vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
        if (folder / TOKENIZER_FILE).is_file():
            backend = _read(library.Tokenizer.from_file, folder / TOKENIZER_FILE)
        elif vocabulary.is_file() and merges.is_file() and _is_clip(folder):
            backend = _read(_clip_tokenizer, vocabulary, merges)
        elif vocabulary.is_file() and merges.is_file():
            backend = _read(library.ByteLevelBPETokenizer, vocabulary, merges)._tokenizer
        else:
            raise FileNotFoundError(f"{folder} has neither {TOKENIZER_FILE} nor vocab.json and merges.txt")
        return Tokenizer(backend, _special_tokens(folder), _chat_template(folder))
