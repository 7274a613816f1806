"""How to continue a sequence, as generation_config.json says it."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple, TypedDict, Unpack

from webgpu_torch_models.config import JsonConfig, ModelConfig


class GenerationOptions(TypedDict, total=False):
    """Attributes of :class:`GenerationConfig` as named arguments; None leaves one as it is."""

    max_new_tokens: int | None
    do_sample: bool | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    repetition_penalty: float | None
    num_beams: int | None
    length_penalty: float | None
    early_stopping: bool | str | None
    stop_strings: str | list[str] | None
    num_assistant_tokens: int | None
    min_length: int | None
    min_new_tokens: int | None
    no_repeat_ngram_size: int | None
    bad_words_ids: list[list[int]] | None
    forced_bos_token_id: int | None
    forced_eos_token_id: int | list[int] | None
    suppress_tokens: list[int] | None
    begin_suppress_tokens: list[int] | None
    return_timestamps: bool | None
    no_timestamps_token_id: int | None
    max_initial_timestamp_index: int | None
    bos_token_id: int | None
    eos_token_id: int | list[int] | None
    pad_token_id: int | None


class Sampling(NamedTuple):
    """How a token is chosen from scores; attributes as :class:`GenerationConfig`'s."""

    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float | None = None


def _listed(tokens: int | list[int] | None) -> list[int]:
    return [] if tokens is None else [tokens] if isinstance(tokens, int) else list(tokens)


@dataclasses.dataclass
class GenerationConfig(JsonConfig):
    """How to continue a sequence, as in generation_config.json.

    Attributes:
        max_new_tokens: how many tokens to add at most; 20 where it is None.
        do_sample: draw tokens instead of taking the most likely.
        temperature: divides the logits.
        top_k: draw among that many most likely tokens only; 0 is all.
        top_p: draw among the most likely tokens whose probabilities add up to it; 1.0 is all.
        min_p: draw among the tokens at least that likely relative to the likeliest; None is all.
        repetition_penalty: what the logits of tokens in the sequence are divided by (if negative, multiplied); 1.0 is none.
        num_beams: how many continuations are followed at once; 1 is no beam search.
        length_penalty: a beam's score is divided by its length to this power.
        early_stopping: a beam search ends as soon as it has ``num_beams`` whole sequences (True), when better ones are
            unlikely (False) or when they are impossible ("never").
        stop_strings: texts that end a sequence; they stay in it.
        num_assistant_tokens: how many tokens an ``assistant_model`` proposes at once.
        min_length: a sequence with fewer tokens, prompt included, does not end.
        min_new_tokens: how many tokens to add at least; in place of ``min_length`` where both are given.
        no_repeat_ngram_size: so many tokens in a row do not come twice; 0 is any number.
        bad_words_ids: sequences of tokens that do not come.
        forced_bos_token_id: the token that follows a prompt of one token, such as a language.
        forced_eos_token_id: the token, or one of the tokens, that comes last where ``max_new_tokens`` are added.
        suppress_tokens: tokens that are never chosen.
        begin_suppress_tokens: tokens that are not chosen first.
        return_timestamps: write when texts are said, in pairs of tokens that stand for times, as Whisper can.
        no_timestamps_token_id: the token before Whisper's tokens for times.
        max_initial_timestamp_index: how many steps after zero the first time is at most; None is any number.
        eos_token_id: the token, or tokens, that end a sequence.
        pad_token_id: what follows the end of a sequence while others of the batch go on.
    """

    file_name: ClassVar[str] = "generation_config.json"

    max_new_tokens: int | None = None
    do_sample: bool = False
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    min_p: float | None = None
    repetition_penalty: float = 1.0
    num_beams: int = 1
    length_penalty: float = 1.0
    early_stopping: bool | str = False
    stop_strings: str | list[str] | None = None
    num_assistant_tokens: int = 5
    min_length: int = 0
    min_new_tokens: int | None = None
    no_repeat_ngram_size: int = 0
    bad_words_ids: list[list[int]] | None = None
    forced_bos_token_id: int | None = None
    forced_eos_token_id: int | list[int] | None = None
    suppress_tokens: list[int] | None = None
    begin_suppress_tokens: list[int] | None = None
    return_timestamps: bool = False
    no_timestamps_token_id: int | None = None
    max_initial_timestamp_index: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None

    @classmethod
    def from_model_config(cls, config: ModelConfig) -> GenerationConfig:
        """Return the defaults with the special tokens of a model."""
        names = ("bos_token_id", "eos_token_id", "pad_token_id")
        tokens: dict[str, Any] = {name: getattr(config, name, None) for name in names}
        return cls(**tokens)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> GenerationConfig:
        # Hugging Face writes null for "the default".
        return super().from_dict({key: value for key, value in values.items() if value is not None})

    def to_dict(self) -> dict[str, Any]:
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        return {key: value for key, value in super().to_dict().items() if value != defaults.get(key)}

    def changed(self, **options: Unpack[GenerationOptions]) -> GenerationConfig:
        """Return a copy in which the options that are not None replace those here.

        Raises:
            TypeError: there is no such option.
            ValueError: an option is out of range.
        """
        names = {field.name for field in dataclasses.fields(self)} - {"extra"}
        unknown = [key for key in options if key not in names]
        if unknown:
            raise TypeError(f"generation has no option {', '.join(unknown)}; it has: {', '.join(sorted(names))}")
        result = dataclasses.replace(self, **{key: value for key, value in options.items() if value is not None})
        result.check()
        return result

    def check(self) -> None:
        """Raise ValueError where an option is out of range."""
        if self.temperature <= 0:
            raise ValueError(
                f"temperature must be greater than 0, got {self.temperature}; for the limit 0 use do_sample=False"
            )
        if self.top_k < 0:
            raise ValueError(f"top_k must be 0 (all tokens) or positive, got {self.top_k}")
        for name, share in (("top_p", self.top_p), ("min_p", self.min_p)):
            if share is not None and not 0 <= share <= 1:
                raise ValueError(f"{name} must be between 0 and 1, got {share}")
        if self.repetition_penalty <= 0:
            raise ValueError(f"repetition_penalty must be greater than 0, got {self.repetition_penalty}; 1.0 is none")
        if self.num_beams < 1:
            raise ValueError(f"num_beams must be at least 1, got {self.num_beams}")
        if self.num_assistant_tokens < 1:
            raise ValueError(f"num_assistant_tokens must be at least 1, got {self.num_assistant_tokens}")
        if self.early_stopping not in (True, False, "never"):
            raise ValueError(f'early_stopping must be True, False or "never", got {self.early_stopping!r}')
        if self.new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, got {self.max_new_tokens}")
        for name in ("min_length", "min_new_tokens", "no_repeat_ngram_size"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"{name} must be 0 or positive, got {getattr(self, name)}")
        words = self.bad_words_ids
        if words is not None and not (
            isinstance(words, list) and all(isinstance(each, list) and each for each in words)
        ):
            raise ValueError(f"bad_words_ids must be a list of lists of tokens, none of them empty, got {words}")
        if self.return_timestamps and self.no_timestamps_token_id is None:
            raise ValueError("return_timestamps needs no_timestamps_token_id: the model has no tokens for times")

    def check_tokens(self, vocabulary: int) -> None:
        """Raise ValueError where a token that is to come, or one of a word that is not, is none of ``vocabulary`` many."""
        bos = [] if self.forced_bos_token_id is None else [self.forced_bos_token_id]
        given = {"forced_bos_token_id": bos, "forced_eos_token_id": self.forced_ends}
        given["bad_words_ids"] = [token for word in self.bad_words_ids or () for token in word]
        for name, tokens in given.items():
            wrong = [each for each in tokens if not 0 <= each < vocabulary]
            if wrong:
                raise ValueError(f"{name} has the token {wrong[0]}, which is none of the model's {vocabulary}")

    @property
    def new_tokens(self) -> int:
        """How many tokens to add at most."""
        return 20 if self.max_new_tokens is None else self.max_new_tokens

    @property
    def sampling(self) -> Sampling:
        """How a token is chosen: equal where the same is done."""
        if not self.do_sample:
            return Sampling()
        return Sampling(True, self.temperature, self.top_k, self.top_p, self.min_p)

    @property
    def end_tokens(self) -> list[int]:
        """The tokens that end a sequence."""
        return _listed(self.eos_token_id)

    @property
    def forced_ends(self) -> list[int]:
        """The tokens of which one comes last."""
        return _listed(self.forced_eos_token_id)

    @property
    def bad_words(self) -> list[list[int]]:
        """The sequences of tokens that do not come; a token that ends sequences is none of them."""
        ends = [[each] for each in self.end_tokens]
        return [each for each in self.bad_words_ids or () if each not in ends]

    @property
    def filler(self) -> int | None:
        """The token that follows the end of a sequence, if one is known."""
        ends = self.end_tokens
        return self.pad_token_id if self.pad_token_id is not None else ends[0] if ends else None
