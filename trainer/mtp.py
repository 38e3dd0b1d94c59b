"""Multi-token prediction (DeepSeek-V3, arXiv 2412.19437 section 2.2): modules that each look one token further.

h^k_i = Block_k(P_k [RMSNorm(h^(k-1)_i) ; RMSNorm(Emb(t_(i+k)))]), with the main model's embedding and head. h^0 is the
residual stream behind the last block of the main model, before its final norm.

Shape letters: B sequences, S positions, T = B * S tokens, D model width, V vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from trainer.config import ModelConfig
from trainer.norm import rms_norm
from trainer.targets import Targets

PREFIX = "mtp."
_MODULE = re.compile(r"^mtp\.(\d+)\.(.+)$")


def joined(
    hidden_BSD: Tensor, embedded_BSD: Tensor, weights: Mapping[str, Tensor], prefix: str, model: ModelConfig
) -> Tensor:
    """[B, S, D] what the block of a module reads: both inputs normed, joined (hidden first) and projected."""
    parts = [
        rms_norm(hidden_BSD, weights[f"{prefix}hidden_norm.weight"], model.norm_eps),
        rms_norm(embedded_BSD, weights[f"{prefix}embedding_norm.weight"], model.norm_eps),
    ]
    return functional.linear(torch.cat(parts, dim=-1), weights[f"{prefix}projection.weight"])


def label_losses(logits_TV: Tensor, targets: Targets) -> Tensor:
    """[T] cross-entropy of the target tokens."""
    return functional.cross_entropy(logits_TV, targets.token_BS.reshape(-1), reduction="none")


def teacher_losses(logits_TV: Tensor, teacher_logits_TV: Tensor, depth: int, targets: Targets) -> Tensor:
    """[T] KL(main head || module): the teacher is the main head `depth` positions ahead, which predicts the same token.

    No gradient reaches the teacher.
    """
    seq_len, vocabulary = targets.token_BS.shape[1], logits_TV.shape[1]
    teacher_BSV = teacher_logits_TV.detach().view(-1, seq_len, vocabulary)
    ahead_TV = functional.pad(teacher_BSV[:, depth:], (0, 0, 0, depth)).reshape(-1, vocabulary)
    student, teacher = logits_TV.log_softmax(dim=-1), ahead_TV.log_softmax(dim=-1)
    return functional.kl_div(student, teacher, reduction="none", log_target=True).sum(dim=-1)


def grown(stored: Mapping[str, Tensor], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """`stored`, and for each module that `shapes` asks for beyond it a copy of its deepest module (RM2-2.8).

    Without any stored module there is nothing to copy: the first one starts from its initial weights.
    """
    kept = dict(stored)
    depths = [int(match[1]) for name in stored if (match := _MODULE.match(name))]
    for name in shapes:
        match = _MODULE.match(name)
        if match and depths and int(match[1]) > max(depths):
            source = f"{PREFIX}{max(depths)}.{match[2]}"
            if source in stored:
                kept[name] = stored[source].clone()
    return kept
