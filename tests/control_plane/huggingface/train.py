"""A Hugging Face training as one finds it: argument parser, Trainer, a model from its config. Knows no Lathe."""

from dataclasses import dataclass, field

from data import CountingDataset
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments, set_seed


@dataclass
class ModelArguments:
    n_layer: int = field(default=2)
    n_embd: int = field(default=32)


def main():
    model_args, training_args = HfArgumentParser((ModelArguments, TrainingArguments)).parse_args_into_dataclasses()
    set_seed(training_args.seed)
    config = GPT2Config(
        vocab_size=32,
        n_positions=32,
        n_layer=model_args.n_layer,
        n_embd=model_args.n_embd,
        n_head=2,
        bos_token_id=0,
        eos_token_id=0,
    )
    trainer = Trainer(model=GPT2LMHeadModel(config), args=training_args, train_dataset=CountingDataset())
    trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
    trainer.save_state()


if __name__ == "__main__":
    main()
