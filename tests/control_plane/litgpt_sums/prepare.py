"""What litgpt finetunes: a tiny model, a byte-level tokenizer and sums as data. Usage: prepare.py FOLDER."""

import json
import sys
from pathlib import Path

import torch
from litgpt.config import Config
from litgpt.model import GPT
from litgpt.utils import save_config
from tokenizers import Tokenizer, decoders, models, pre_tokenizers


def main(folder):
    folder.mkdir(parents=True)
    vocabulary = {token: i for i, token in enumerate(["<eos>", *sorted(pre_tokenizers.ByteLevel.alphabet())])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"eos_token": "<eos>", "tokenizer_class": "GPT2Tokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    config = Config(
        name="tiny",
        block_size=128,
        vocab_size=len(vocabulary),
        padded_vocab_size=320,
        n_layer=2,
        n_head=2,
        n_embd=32,
    )
    torch.manual_seed(0)
    save_config(config, folder)
    torch.save({"model": GPT(config).state_dict()}, folder / "lit_model.pth")
    sums = [
        {"instruction": f"add {a} and {b}", "input": "", "output": str(a + b)} for a in range(30) for b in range(20)
    ]
    (folder / "sums.json").write_text(json.dumps(sums))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
