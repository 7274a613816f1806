"""``tokenizers.Tokenizer`` in Python: from a text to numbers and back, as tokenizer.json says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .decoders import Decoder
from .encoding import Encoding
from .models import Model
from .normalizers import Normalizer
from .pre_tokenizers import PreTokenizer
from .processors import PostProcessor, joined
from .stages import Value
from .text import Piece, compiled, is_space

#: the parts of a file, each with its family
PARTS: dict[str, Any] = {
    "normalizer": Normalizer, "pre_tokenizer": PreTokenizer, "post_processor": PostProcessor, "decoder": Decoder, "model": Model,
}  # fmt: skip
#: what older files leave out of a model is told by what it has
_SIGNS = (("merges", "BPE"), ("unk_id", "Unigram"), ("max_input_chars_per_word", "WordPiece"))


@dataclass(eq=True, unsafe_hash=False)
class AddedToken:
    """A token that is found in texts before they are split."""

    content: str = ""
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool | None = None
    special: bool = False

    def __post_init__(self) -> None:
        if self.normalized is None:
            self.normalized = not self.special

    def __hash__(self) -> int:
        return hash(self.content)

    def __str__(self) -> str:
        return self.content

    def __repr__(self) -> str:
        flags = ("rstrip", "lstrip", "single_word", "normalized", "special")
        return f'AddedToken("{self.content}", {", ".join(f"{name}={getattr(self, name)}" for name in flags)})'

    def __getstate__(self) -> dict[str, Value]:
        return asdict(self)


def _camel(text: str) -> str:
    return "".join(word.capitalize() for word in text.split("_"))


def _snake(text: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", text).lower()


class Tokenizer:
    """A model with what is done before and after it.

    Attributes:
        model, normalizer, pre_tokenizer, post_processor, decoder: its parts, None where it has none.
        truncation, padding: how long results are, None where they are as long as their texts.
        encode_special_tokens: take special tokens in texts for text.
    """

    def __init__(self, model: Value) -> None:
        self.model = model
        self.normalizer: Any = None
        self.pre_tokenizer: Any = None
        self.post_processor: Any = None
        self.decoder: Any = None
        self.truncation: dict[str, Any] | None = None
        self.padding: dict[str, Any] | None = None
        self.encode_special_tokens = False
        self._added: dict[int, AddedToken] = {}
        self._numbers: dict[str, int] = {}
        # Once special, always special, whatever it is added as later.
        self._special: set[str] = set()

    @staticmethod
    def from_str(text: str) -> Tokenizer:
        """Return the tokenizer that a text describes.

        Raises:
            ValueError: it has a part that is not known here.
        """
        return Tokenizer._read(text)

    @classmethod
    def _read(cls, text: str) -> Tokenizer:
        described = json.loads(text)
        model = described["model"]
        if "type" not in model:
            model = {**model, "type": next((kind for sign, kind in _SIGNS if sign in model), "WordLevel")}
        made = cls(Model.read(model))
        for name in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
            if described.get(name) is not None:
                setattr(made, name, PARTS[name].read(described[name]))
        added: list[dict[str, Any]] = described.get("added_tokens") or []
        for each in sorted(added, key=lambda one: one["id"]):
            token = AddedToken(**{key: value for key, value in each.items() if key != "id"})
            # Files name the numbers themselves.
            made._keep(each["id"], token)
        truncation, padding = described.get("truncation"), described.get("padding")
        if truncation:
            made.enable_truncation(
                truncation["max_length"], truncation["stride"], _snake(truncation["strategy"]),
                truncation.get("direction", "Right").lower(),
            )  # fmt: skip
        if padding:
            fixed = padding["strategy"]["Fixed"] if isinstance(padding["strategy"], dict) else None
            options = {key: padding[key] for key in ("pad_id", "pad_type_id", "pad_token", "pad_to_multiple_of")}
            made.enable_padding(direction=padding["direction"].lower(), length=fixed, **options)
        return made

    @staticmethod
    def from_file(path: str) -> Tokenizer:
        """Return the tokenizer of a file.

        Raises:
            ValueError: it has a part that is not known here.
        """
        return Tokenizer.from_str(Path(path).read_text(encoding="utf-8"))

    @staticmethod
    def from_buffer(buffer: bytes) -> Tokenizer:
        """Return the tokenizer that bytes describe."""
        return Tokenizer.from_str(bytes(buffer).decode())

    def to_str(self, pretty: bool = False) -> str:
        """Return what tokenizer.json holds."""
        truncation = padding = None
        if self.truncation is not None:
            truncation = self.truncation | {key: _camel(self.truncation[key]) for key in ("direction", "strategy")}
        if self.padding is not None:
            length, direction = self.padding["length"], _camel(self.padding["direction"])
            strategy = "BatchLongest" if length is None else {"Fixed": length}
            fields = {key: value for key, value in self.padding.items() if key != "length"}
            padding = fields | {"strategy": strategy, "direction": direction}
        parts = {name: getattr(self, name) for name in PARTS}
        described = {
            "version": "1.0", "truncation": truncation, "padding": padding,
            "added_tokens": [{"id": number} | asdict(each) for number, each in sorted(self._added.items())],
        } | {name: None if part is None else part.described() for name, part in parts.items()}  # fmt: skip
        return json.dumps(described, ensure_ascii=False, indent=2 if pretty else None)

    def save(self, path: str, pretty: bool = True) -> None:
        """Write tokenizer.json."""
        Path(path).write_text(self.to_str(pretty), encoding="utf-8")

    def __getstate__(self) -> bytes:
        return self.to_str().encode()

    def __setstate__(self, state: bytes) -> None:
        vars(self).update(vars(Tokenizer.from_buffer(state)))

    def get_vocab(self, with_added_tokens: bool = True) -> dict[str, int]:
        """Return the numbers of all tokens."""
        return {**self.model.numbers, **(self._numbers if with_added_tokens else {})}

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        """Return how many tokens there are."""
        return len(self.get_vocab(with_added_tokens))

    def token_to_id(self, token: str) -> int | None:
        """Return a token's number; None if there is no such token."""
        return self._numbers.get(token, self.model.token_to_id(token))

    def id_to_token(self, id: int) -> str | None:
        """Return a token by its number; None if there is no such number."""
        return self._added[id].content if id in self._added else self.model.id_to_token(id)

    def get_added_tokens_decoder(self) -> dict[int, AddedToken]:
        """Return the added tokens by number."""
        return dict(sorted(self._added.items()))

    def add_tokens(self, tokens: Iterable[str | AddedToken]) -> int:
        """Add tokens that are no special ones unless they say so; return how many are new."""
        return sum(self._add(AddedToken(each) if isinstance(each, str) else each) for each in tokens)

    def add_special_tokens(self, tokens: Iterable[str | AddedToken]) -> int:
        """Add special tokens, which decoding leaves out; return how many are new."""
        count = 0
        for each in tokens:
            token = AddedToken(each, special=True) if isinstance(each, str) else AddedToken(**asdict(each))
            token.special = True
            count += self._add(token)
        return count

    def _add(self, token: AddedToken) -> int:
        if not token.content or token in self._added.values():
            return 0
        number = self.token_to_id(token.content)
        if number is None:
            number = max(len(self.model.numbers), *(each + 1 for each in self._added), 0)
        self._keep(number, AddedToken(**asdict(token)))
        return 1

    def _keep(self, number: int, token: AddedToken) -> None:
        self._added[number] = token
        self._numbers[token.content] = number
        if token.special:
            self._special.add(token.content)

    def enable_truncation(
        self, max_length: int, stride: int = 0, strategy: str = "longest_first", direction: str = "right"
    ) -> None:
        """Let results have so many tokens at most."""
        given = {"max_length": max_length, "stride": stride, "strategy": strategy, "direction": direction}
        self.truncation = given

    def no_truncation(self) -> None:
        """Let results be as long as their texts."""
        self.truncation = None

    def enable_padding(
        self, direction: str = "right", pad_id: int = 0, pad_type_id: int = 0, pad_token: str = "[PAD]",
        length: int | None = None, pad_to_multiple_of: int | None = None,
    ) -> None:  # fmt: skip
        """Let results of a batch be of one length."""
        self.padding = {
            "length": length, "pad_to_multiple_of": pad_to_multiple_of, "pad_id": pad_id, "pad_token": pad_token,
            "pad_type_id": pad_type_id, "direction": direction,
        }  # fmt: skip

    def no_padding(self) -> None:
        """Let results have their own lengths."""
        self.padding = None

    def num_special_tokens_to_add(self, is_pair: bool) -> int:
        """Return how many tokens are added to one text or two."""
        return 0 if self.post_processor is None else self.post_processor.num_special_tokens_to_add(is_pair)

    def _found(self, piece: Piece, normalized: bool) -> Iterator[Piece]:
        """Yield the added tokens of a text, of those that are looked for before or after it is normalised, and the rest."""
        contents: dict[str, int] = {}
        for number, token in self._added.items():
            if bool(token.normalized) == normalized and not (
                self.encode_special_tokens and token.content in self._special
            ):
                text = token.content
                if normalized and self.normalizer is not None:
                    text = self.normalizer.normalize_str(text)
                contents.setdefault(text, number)
        last = 0
        if contents:
            longest = sorted(filter(None, contents), key=len, reverse=True)
            for match in re.finditer("|".join(map(re.escape, longest)), piece.text):
                start, end = match.span()
                number = contents[match[0]]
                token, text = self._added[number], piece.text
                if start < last or (token.single_word and _within_word(text, start, end)):
                    continue
                while token.lstrip and start > last and is_space(text[start - 1]):
                    start -= 1
                while token.rstrip and end < len(text) and is_space(text[end]):
                    end += 1
                if start > last:
                    yield piece.part(last, start)
                found = piece.part(start, end)
                found.token = number
                yield found
                last = end
        if last < len(piece.text):
            yield piece.part(last, len(piece.text))

    def _pieces(self, text: str) -> Iterator[Piece]:
        """Yield the added tokens and the words of a text."""
        for whole in self._found(Piece(text), normalized=False):
            if whole.token is not None:
                yield whole
                continue
            normal = whole if self.normalizer is None else self.normalizer.changed(whole)
            for part in self._found(normal, normalized=True):
                if part.token is not None or self.pre_tokenizer is None:
                    yield part
                else:
                    yield from (each for each in self.pre_tokenizer.pieces(part) if each.text)

    def _tokens(self, given: str | Sequence[str], sequence: int, pretokenized: bool) -> Encoding:
        """Return the tokens of a text, or of one that is in words."""
        if pretokenized == isinstance(given, str):
            raise TypeError(
                "TextInputSequence must be str" if not pretokenized else "PreTokenizedInputSequence must be List[str]"
            )
        found = Encoding()
        for number, text in enumerate([given] if isinstance(given, str) else given):
            for place, piece in enumerate(self._pieces(text)):
                word = number if pretokenized else place
                if piece.token is not None:
                    found.add(piece.token, piece.text, piece.span(0, len(piece.text)), word, sequence, sequence)
                    continue
                for token in self.model.tokenize(piece.text):
                    found.add(token.id, token.value, piece.span(*token.offsets), word, sequence, sequence)
        return found

    def encode(
        self, sequence: Value, pair: Value = None, is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> Encoding:
        """Return the tokens of a text, or of two.

        Raises:
            ValueError: there is no token for a part of them, or no room for them.
        """
        return self.encode_batch([sequence if pair is None else (sequence, pair)], is_pretokenized, add_special_tokens)[
            0
        ]

    def encode_batch(
        self, input: Sequence[Value], is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        """Return the tokens of texts, or of pairs of them.

        Raises:
            ValueError: there is no token for a part of one, or no room for it.
        """
        results = []
        for each in input:
            inner = isinstance(each, (tuple, list)) and len(each) == 2
            pair = inner and (not is_pretokenized or not isinstance(each[0], str))
            texts = each if pair else (each,)
            encodings = [self._tokens(text, place, is_pretokenized) for place, text in enumerate(texts)]
            encodings = self._truncated(encodings, add_special_tokens)
            results.append(joined(self.post_processor, encodings, add_special_tokens))
        self._pad(results)
        return results

    encode_batch_fast = encode_batch

    def _pad(self, results: list[Encoding]) -> None:
        if self.padding is None or not results:
            return
        length = self.padding["length"] or max(map(len, results))
        multiple = self.padding["pad_to_multiple_of"]
        if multiple:
            length = -(-length // multiple) * multiple
        for each in results:
            each.padded(
                length,
                self.padding["direction"],
                *(self.padding[key] for key in ("pad_id", "pad_type_id", "pad_token")),
            )

    def _truncated(self, encodings: list[Encoding], special: bool) -> list[Encoding]:
        if self.truncation is None:
            return encodings
        room = self.truncation["max_length"] - (self.num_special_tokens_to_add(len(encodings) == 2) if special else 0)
        lengths = [len(each) for each in encodings]
        excess = sum(lengths) - room
        if excess <= 0:
            return encodings
        strategy = self.truncation["strategy"]
        if strategy == "longest_first" and len(lengths) == 2:
            short, long = sorted(lengths)
            long = short if short > room else max(short, room - short)
            if short + long > room:
                short, long = room // 2, room // 2 + room % 2
            kept = [short, long] if lengths[0] <= lengths[1] else [long, short]
        elif strategy == "longest_first":
            kept = [max(room, 0)]
        else:
            place = 0 if strategy == "only_first" else 1
            if place >= len(lengths):
                raise ValueError("Truncation error: Second sequence not provided")
            if lengths[place] <= excess:
                raise ValueError("Truncation error: Sequence to truncate too short to respect the provided max_length")
            kept = list(lengths)
            kept[place] -= excess
        stride, direction = self.truncation["stride"], self.truncation["direction"]
        return [each.truncated(length, stride, direction) for each, length in zip(encodings, kept, strict=True)]

    def post_process(
        self, encoding: Encoding, pair: Encoding | None = None, add_special_tokens: bool = True
    ) -> Encoding:
        """Return tokens truncated, with others around them, and padded."""
        encodings = self._truncated([encoding] if pair is None else [encoding, pair], add_special_tokens)
        result = joined(self.post_processor, encodings, add_special_tokens)
        self._pad([result])
        return result

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of tokens."""
        tokens = []
        for number in ids:
            text = self.id_to_token(number)
            if text is not None and not (skip_special_tokens and text in self._special):
                tokens.append(text)
        return " ".join(tokens) if self.decoder is None else self.decoder.decode(tokens)

    def decode_batch(self, sequences: Sequence[Sequence[int]], skip_special_tokens: bool = True) -> list[str]:
        """Return the texts of tokens."""
        return [self.decode(each, skip_special_tokens) for each in sequences]


def _within_word(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text goes on as a word on either side."""
    return any(compiled(r"\w").match(each) for each in (text[max(start - 1, 0) : start], text[end : end + 1]))
