"""Generation with a cache equals whole passes; speculative decoding changes the speed and nothing else."""

from __future__ import annotations

import itertools

import pytest
import torch
from small_training import small_config
from torch import Tensor

from contracts.errors import ConfigError
from contracts.events import Scalar
from trainer import Parts, Recipe, TrainConfig
from trainer.corpus import Corpus
from trainer.decoder import Decoder
from trainer.generate import Sampling, full_logits, generate
from trainer.model import LanguageModel
from trainer.speculative import Draft, generate_speculatively, keep_probability, remainder, verified
from trainer.targets import Sequences
from trainer.training import Training
from trainer.weights import initial_buffers, initial_weights

VARIETIES: list[dict[str, Scalar]] = [
    {},
    {"moe.num_dense_layers": 1, "model.qk_norm": True, "moe.num_shared_experts": 1, "moe.router_jitter": 0.3},
    {"model.tie_embeddings": True, "model.logit_softcap": 5.0, "moe.gate": "sigmoid", "moe.choice_bias": True},
    {"model.attention_bias": True, "model.embedding_scale": 2.0, "model.residual_scale": 0.5, "model.rope_scale": 2.0},
]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def prompts(rows: int = 2, length: int = 5) -> Tensor:
    return torch.randint(0, 256, (rows, length), generator=seeded(3))


@pytest.fixture(scope="module")
def trained(corpus: Corpus) -> tuple[TrainConfig, dict[str, Tensor]]:
    """A model with three modules after some steps."""
    config = small_config(mtp__num_modules=3, schedule__warmup_steps=0)
    training = Training(Recipe(config=config), corpus, None, itertools.count(0.0).__next__)
    for _ in range(60):
        training.advance()
    return config, {name: weight.clone() for name, weight in training.state().weights.items()}


@pytest.mark.parametrize("variety", VARIETIES)
def test_logits_equal_those_of_training(variety: dict[str, Scalar]) -> None:
    """The loss computed from the decoder's logits is the one that training computes; jitter is training's alone."""
    config = small_config(data__batch_size=2, parallel__dp_size=2).with_overrides(variety)
    weights = initial_weights(config) | initial_buffers(config)
    tokens = prompts(length=17)
    log_probs = full_logits(config, weights, tokens[:, :-1]).log_softmax(dim=-1)
    ours = -log_probs.gather(2, tokens[:, 1:].unsqueeze(-1)).mean()
    model = LanguageModel(config.with_overrides({"moe.router_jitter": 0.0}), Parts())
    assert float(ours) == pytest.approx(float(model.forward(weights, Sequences(tokens_BS=tokens), 0).lm_loss), rel=1e-5)


@pytest.mark.parametrize("pieces", [[1] * 12, [5, 1, 6], [12]])
def test_pieces_equal_the_whole(pieces: list[int]) -> None:
    """However the tokens arrive, and also after others were taken back."""
    config = small_config()
    weights = initial_weights(config)
    tokens = prompts(length=12)
    whole = full_logits(config, weights, tokens)
    decoder = Decoder(config, weights, 2, 16)
    decoder.extend(255 - tokens[:, :4])
    decoder.rewind(0)
    parts = [decoder.extend(piece)[1] for piece in tokens.split(pieces, dim=1)]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=1e-5)


def test_greedy_takes_the_most_probable(trained: tuple[TrainConfig, dict[str, Tensor]]) -> None:
    config, weights = trained
    found = generate(config, weights, prompts(), 12, Sampling(), seeded())
    assert torch.equal(found[:, :5], prompts())
    logits = full_logits(config, weights, found[:, :-1])
    assert torch.equal(found[:, 5:], logits[:, 4:].argmax(dim=-1))


def test_sampling_is_seeded_and_cuts_the_tail(trained: tuple[TrainConfig, dict[str, Tensor]]) -> None:
    config, weights = trained
    warm = Sampling(temperature=1.0)
    one, two = (generate(config, weights, prompts(), 8, warm, seeded(1)) for _ in range(2))
    assert torch.equal(one, two)
    assert not torch.equal(one, generate(config, weights, prompts(), 8, warm, seeded(2)))
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert Sampling(temperature=1.0, top_p=0.6).distribution(logits)[0].tolist() == pytest.approx([0.625, 0.375, 0, 0])
    assert Sampling(temperature=0.5).distribution(logits)[0, 0].item() == pytest.approx(0.25 / 0.365)


@pytest.mark.parametrize("num_modules", [1, 2, 3])
def test_greedy_speculation_is_token_for_token_the_same(
    trained: tuple[TrainConfig, dict[str, Tensor]], num_modules: int
) -> None:
    """Shows RM2-2.9: one to three drafting modules; some drafts are kept, so fewer passes are needed."""
    config, weights = trained
    config = config.with_overrides({"mtp.num_modules": num_modules})
    accepted = 0
    for seed in range(4):
        prompt = torch.randint(97, 123, (1, 6), generator=seeded(seed))
        plain = generate(config, weights, prompt, 40, Sampling(), seeded())
        found = generate_speculatively(config, weights, prompt[0].tolist(), 40, Sampling(), seeded())
        assert list(found.tokens) == plain[0].tolist()
        assert found.num_passes + found.num_accepted >= 39
        accepted += found.num_accepted
    assert accepted > 0


def test_drafts_are_those_of_the_training_pass(trained: tuple[TrainConfig, dict[str, Tensor]]) -> None:
    """Module k's draft at the end of a text is what its training-time logits say there, caches and rewinds or not."""
    from trainer.speculative import Drafter

    config, weights = trained
    text = prompts(rows=1, length=9)[0].tolist()
    decoder = Decoder(config, weights, 1, 20)
    drafter = Drafter(config, weights, decoder, 20)
    hidden, _ = decoder.extend(torch.tensor([text[:4]]))
    drafter.remember(hidden, 0)
    drafter.drafts(text[:5], Sampling(), seeded())  # a round whose drafts are not kept
    hidden, _ = decoder.extend(torch.tensor([text[4:8]]))
    drafter.remember(hidden, 4)
    late = drafter.drafts(text, Sampling(temperature=1.0), seeded(5))
    fresh_decoder = Decoder(config, weights, 1, 20)
    fresh = Drafter(config, weights, fresh_decoder, 20)
    fresh.remember(fresh_decoder.extend(torch.tensor([text[:8]]))[0], 0)
    for one, two in zip(late, fresh.drafts(text, Sampling(temperature=1.0), seeded(5)), strict=True):
        assert one.token == two.token
        torch.testing.assert_close(one.probs_V, two.probs_V, atol=1e-6, rtol=1e-4)


def test_accepting_and_redrawing_gives_exactly_the_target() -> None:
    """Leviathan et al. appendix A.1: sum over drafts of q(d) P(output | d) is p, for any two distributions."""
    for seed in range(20):
        p, q = (torch.randn(7, generator=seeded(s), dtype=torch.float64).mul(2).softmax(0) for s in (seed, seed + 99))
        output = torch.zeros(7, dtype=torch.float64)
        for token in range(7):
            draft = Draft(token=token, probs_V=q)
            chance = keep_probability(p, draft)
            output[token] += q[token] * chance
            if chance < 1.0:
                output += q[token] * (1.0 - chance) * remainder(p, draft)
        torch.testing.assert_close(output, p, atol=1e-12, rtol=0)


def test_verified_draws_from_the_target() -> None:
    """The same by drawing: 6000 rounds of one draft each, chi-squared over seven tokens (99.9 % point at 6: 22.5)."""
    p, q = (torch.randn(7, generator=seeded(s), dtype=torch.float64).softmax(0) for s in (1, 2))
    generator, warm = seeded(4), Sampling(temperature=1.0)
    counts = torch.zeros(7, dtype=torch.float64)
    for _ in range(6000):
        draft = Draft(token=int(warm.draw(q.unsqueeze(0), generator)), probs_V=q)
        counts[verified(torch.stack([p, p]), [draft], warm, generator)[0]] += 1
    assert float(((counts - 6000 * p) ** 2 / (6000 * p)).sum()) < 22.5
    assert float(((counts - 6000 * q) ** 2 / (6000 * q)).sum()) > 100.0


def test_sampled_speculation_has_the_plain_distribution(trained: tuple[TrainConfig, dict[str, Tensor]]) -> None:
    """The third token after a prompt, against its exact probabilities summed over all first two; 99.9 % point at 5."""
    config, weights = trained
    prompt, warm = [105, 109, 112], Sampling(temperature=0.7, top_p=0.6)

    def after(rows: Tensor) -> Tensor:
        return warm.distribution(full_logits(config, weights, rows)[:, -1])

    probs, rows = torch.ones(1, dtype=torch.float64), torch.tensor([prompt])
    for _ in range(2):
        joint = probs.unsqueeze(1) * after(rows)
        row, token = joint.nonzero(as_tuple=True)
        probs, rows = joint[row, token], torch.cat([rows[row], token.unsqueeze(1)], dim=1)
    exact = (probs.unsqueeze(1) * after(rows)).sum(dim=0)
    counts, generator = torch.zeros(256, dtype=torch.float64), seeded(8)
    for _ in range(500):
        counts[generate_speculatively(config, weights, prompt, 3, warm, generator).tokens[-1]] += 1
    top = exact.topk(5).indices
    seen = torch.cat([counts[top], counts.sum().view(1) - counts[top].sum()])
    wanted = 500 * torch.cat([exact[top], 1.0 - exact[top].sum().view(1)])
    assert float(((seen - wanted) ** 2 / wanted).sum()) < 20.5


def test_what_cannot_be_generated_is_refused() -> None:
    config = small_config()
    with pytest.raises(ConfigError, match="no module that could draft"):
        generate_speculatively(config, initial_weights(config), [1], 2, Sampling(), seeded())
    with pytest.raises(ConfigError, match=r"beyond the rotation of model.rope_base"):
        generate(config, initial_weights(config), prompts(), 10**6, Sampling(), seeded())
