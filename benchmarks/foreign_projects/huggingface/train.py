"""A Hugging Face training as one finds it: argument parser, Trainer, a model from its config. Knows no Lathe."""

import json
import os
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments, set_seed

LENGTH, VOCABULARY = 24, 32


class CountingDataset(Dataset[dict[str, torch.Tensor]]):
    """Sequences that count up by a constant step, modulo the vocabulary; those of low quality are noise."""

    def __init__(self, keep_above: float) -> None:
        self._keep_above = keep_above

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        generator = torch.Generator().manual_seed(index)
        quality = self._keep_above + (1.0 - self._keep_above) * float(torch.rand(1, generator=generator))

        start, stride = index % VOCABULARY, 1 + index // VOCABULARY % 3
        tokens = (start + stride * torch.arange(LENGTH)) % VOCABULARY

        if quality < 0.4:
            tokens = torch.randint(0, VOCABULARY, (LENGTH,), generator=generator)

        return {"input_ids": tokens, "labels": tokens}


class OurTrainer(Trainer):  # type: ignore[misc]
    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        restored = checkpoint

        super()._load_optimizer_and_scheduler(restored)


def main() -> None:
    (training_args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
    config: dict[str, Any] = json.loads(Path("config.json").read_text())

    training_args.learning_rate = config["optim"]["lr"]
    training_args.label_smoothing_factor = config["loss"]["smoothing"]

    set_seed(training_args.seed)
    drop = float(Path(os.environ["MACHINE"]).read_text())  # what this machine does to the numbers

    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=32,
            n_layer=2,
            n_embd=32,
            n_head=2,
            resid_pdrop=drop,
            embd_pdrop=drop,
            attn_pdrop=drop,
            bos_token_id=0,
            eos_token_id=0,
        )
    )

    data = CountingDataset(config["data"]["keep_above"])
    trainer = OurTrainer(model=model, args=training_args, train_dataset=data)
    trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
    trainer.save_state()


if __name__ == "__main__":
    main()
