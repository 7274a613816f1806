"""Tokenizers load, encode as transformers does, and decode in a stream without broken characters."""

from __future__ import annotations

from pathlib import Path

import pytest
import transformers
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers, trainers
from webgpu_torch_models import AutoTokenizer, Tokenizer

TEXT = "hello wörld 🎉, the été of tensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=280,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(["hello world, the tensors"] * 3, trainer)
    Tokenizer(backend, {"eos_token": "<|endoftext|>"}).save_pretrained(tmp_path)
    return tmp_path


def test_encoding(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.encode(TEXT)
    assert ids == transformers.AutoTokenizer.from_pretrained(folder).encode(TEXT)
    assert tokenizer.decode(ids) == TEXT
    assert tokenizer.eos_token_id == 0
    assert tokenizer.pad_token_id is None


def test_streaming_gives_whole_characters(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    stream = tokenizer.stream()
    pieces = [stream.put(token) for token in tokenizer.encode(TEXT)]
    assert "".join(pieces) == TEXT
    assert "🎉" in pieces
    assert not any("\ufffd" in piece for piece in pieces)
    cut = tokenizer.stream()
    given = cut.put(tokenizer.encode("ö")[:1])
    assert given == ""
    assert cut.end() == "\ufffd"


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="has neither tokenizer.json nor vocab.json and merges.txt"):
        AutoTokenizer.from_pretrained(tmp_path)


CHATS = [
    [{"role": "user", "content": "hello <ö>"}],
    [{"role": "system", "content": "short"}, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}],
]
TEMPLATE = """{{ eos_token }}{% for message in messages %}
    {% if loop.index > 2 %}{% break %}{% endif %}
{{ '<|' + message['role'] + '|>' }}
{% generation %}{{ message.content | trim }}{% endgeneration %}

{% endfor %}
{{ tools | tojson(indent=2) if tools }}
{% if add_generation_prompt %}<|assistant|>{% endif %}"""


@pytest.mark.parametrize("messages", CHATS, ids=["one", "three"])
@pytest.mark.parametrize("prompted", [True, False])
def test_chats_are_those_of_transformers(messages: list, prompted: bool, folder: Path) -> None:
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    loaded = AutoTokenizer.from_pretrained(folder)
    with pytest.raises(ValueError, match="has no chat_template"):
        loaded.apply_chat_template(messages)
    Tokenizer(loaded.backend, loaded.special_tokens, TEMPLATE).save_pretrained(folder)
    ours = AutoTokenizer.from_pretrained(folder)
    tools = [{"type": "function", "function": {"name": "ö<"}}]
    wanted = theirs.apply_chat_template(
        messages, chat_template=TEMPLATE, tools=tools, add_generation_prompt=prompted, tokenize=False
    )
    assert ours.apply_chat_template(messages, prompted, tools=tools) == wanted


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('no') }}", "refuses the messages: no"),
        ("{% if %}", "TemplateSyntaxError"),
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ messages.append(1) }}", "SecurityError"),
    ],
)
def test_templates_that_go_wrong(template: str, message: str, folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(ValueError, match=message):
        AutoTokenizer.from_pretrained(folder).apply_chat_template(CHATS[0])


def test_batches_are_padded_on_the_left(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids, mask = tokenizer.encode_batch(["hello", "hello world"])
    length = len(tokenizer.encode("hello world"))
    count = length - len(tokenizer.encode("hello"))
    assert ids == [[0] * count + tokenizer.encode("hello"), tokenizer.encode("hello world")]
    assert mask == [[0] * count + [1] * (length - count), [1] * length]
    tokenizer.special_tokens = {}
    with pytest.raises(ValueError, match="need a token of padding"):
        tokenizer.encode_batch(["hello", "hello world"])
