from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Normalize, Pooling, Transformer


def _model(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = Tokenizer(
        models.WordLevel({"[PAD]": 0, "[UNK]": 1, "a": 2, "cat": 3, "dog": 4, "sat": 5}, unk_token="[UNK]")
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    BertModel(
        BertConfig(vocab_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    ).save_pretrained(folder)
    body = Transformer(folder)
    return SentenceTransformer(modules=[body, Pooling(16), Normalize()], device="cpu")


def encode():
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        model = _model(folder)
        found = model.encode(["a cat sat", "a dog"], convert_to_tensor=True, show_progress_bar=False)
    return [found, model.similarity(found, found)]
