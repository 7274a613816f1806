import tempfile

from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer


def _parts():
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({"<pad>": 0, "<unk>": 1, "<end>": 2, "a": 3, "b": 4, "c": 5}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", unk_token="<unk>", eos_token="<end>")
    return tokenizer, LlamaForCausalLM(
        LlamaConfig(
            vocab_size=8,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            pad_token_id=0,
        )
    )


def supervised():
    tokenizer, model = _parts()
    data = Dataset.from_dict({"text": ["a b c", "b c a b", "c a", "a a b"]})
    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(
            output_dir=folder,
            max_steps=3,
            per_device_train_batch_size=2,
            report_to=[],
            use_cpu=True,
            learning_rate=0.01,
            disable_tqdm=True,
            bf16=False,
            logging_steps=1,
        )
        trainer = SFTTrainer(model, args=config, train_dataset=data, processing_class=tokenizer)
        trainer.train()
    return [each["loss"] for each in trainer.state.log_history if "loss" in each]
