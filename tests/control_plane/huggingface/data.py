"""Sequences that count up by a constant step, modulo the vocabulary."""

import torch
from torch.utils.data import Dataset

LENGTH, VOCABULARY = 24, 32


class CountingDataset(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        start, stride = index % VOCABULARY, 1 + index // VOCABULARY % 3
        tokens = (start + stride * torch.arange(LENGTH)) % VOCABULARY
        return {"input_ids": tokens, "labels": tokens}
