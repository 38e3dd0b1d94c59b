"""The one typed configuration tree. Every leaf changes a metric, the data order or a hash (a test walks them all).

Names and defaults are those of the small demo model: 8 layers, d_model 64, 8 experts top-2, on one CPU thread.
Overrides arrive as dotted keys, for instance `moe.balance.coef`; see `Section.with_overrides`.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from trainer.data_config import SOURCES as SOURCES
from trainer.data_config import DataConfig as DataConfig
from trainer.data_config import MixtureConfig as MixtureConfig
from trainer.section import Count, Fraction, NonNegative, Positive, Section, Steps

GROUPS = ("embedding", "head", "norm", "bias", "router", "attention", "experts")


class InitConfig(Section):
    """Standard deviations of the initial weights (normal, cut at `cut_stds` standard deviations)."""

    embedding_std: Positive = 0.05
    head_std: Positive = 0.02
    attention_std: Positive = 0.1
    experts_std: Positive = 0.1
    router_std: Positive = 0.05
    cut_stds: Positive = 3.0
    scale_outputs_by_depth: bool = True  # attention and expert outputs divided by sqrt(2 * num_layers)


class ModelConfig(Section):
    """Decoder-only transformer; `moe` says what follows attention in each block."""

    vocab_size: Annotated[int, Field(ge=256)] = 256  # the corpus uses the first 256 tokens, one for each byte
    num_layers: Count = 8
    d_model: Annotated[int, Field(ge=4, multiple_of=4)] = 64
    num_heads: Count = 4
    num_kv_heads: Count = 2
    head_dim: Annotated[int, Field(ge=2, multiple_of=2)] = 16
    qk_norm: bool = False
    attention_bias: bool = False
    attention_scale: Positive = 1.0  # times 1 / sqrt(head_dim)
    rope_base: Positive = 10_000.0
    rope_scale: Positive = 1.0  # positions are divided by it (position interpolation)
    norm_eps: Positive = 1e-6
    embedding_scale: Positive = 1.0
    residual_scale: Positive = 1.0  # factor on what each block adds to the residual stream
    tie_embeddings: bool = False
    logit_softcap: NonNegative = 0.0  # cap * tanh(logits / cap); 0 is off
    init: InitConfig = InitConfig()

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"model.num_heads {self.num_heads} is not a multiple of model.num_kv_heads {self.num_kv_heads}"
            )
        return self

    def longest_distance(self) -> float:
        """Positions after which the slowest rotary pair has turned once: 2 pi base^((C - 2) / C) * scale."""
        slowest: float = self.rope_base ** ((self.head_dim - 2) / self.head_dim)
        return 2.0 * math.pi * slowest * self.rope_scale


class PenaltyConfig(Section):
    """When and how strongly an auxiliary loss counts: ramps up over `warmup_steps`, off from `until_step` on."""

    coef: NonNegative = 0.0
    warmup_steps: Steps = 0
    until_step: Steps | None = None  # number of steps after which the penalty is off; None: never

    def coefficient(self, step: int) -> float:
        """The coefficient at a 0-based step."""
        if self.until_step is not None and step >= self.until_step:
            return 0.0
        return self.coef * min(1.0, (step + 1) / (self.warmup_steps + 1))


class BalanceConfig(PenaltyConfig):
    """Load-balancing loss. `scope`: over each data-parallel rank (micro) or over the global batch."""

    coef: NonNegative = 0.01
    scope: Literal["micro", "global"] = "global"


class ZLossConfig(PenaltyConfig):
    """Router z-loss (ST-MoE, arXiv 2202.08906 eq. 5)."""

    coef: NonNegative = 1e-3


class MoeConfig(Section):
    """Router and experts. The gate is computed in float32 whatever `numerics.router_input` says."""

    num_experts: Count = 8
    top_k: Count = 2
    d_expert: Annotated[int, Field(ge=4, multiple_of=4)] = 32
    num_shared_experts: Steps = 0  # experts that every token passes through, beside the routed ones
    gate: Literal["softmax", "sigmoid"] = "softmax"
    num_dense_layers: Steps = 0  # first layers that have one dense SwiGLU of width d_dense instead of experts
    d_dense: Annotated[int, Field(ge=4, multiple_of=4)] = 128
    renormalise: bool = True  # weights of the chosen experts sum to 1
    routed_scale: Positive = 1.0  # factor on the routed output
    router_bias: bool = False  # a learned bias on the router logits (parameter group `bias`)
    choice_bias: bool = False  # a bias that only decides the choice, moved by the sign of each expert's excess load
    choice_bias_rate: NonNegative = 1e-3  # its change per optimizer step (Wang et al., arXiv 2408.15664 algorithm 1)
    router_temperature: Positive = 1.0  # logits are divided by it
    router_jitter: Fraction = 0.0  # router inputs are multiplied by uniform(1 - j, 1 + j) (Switch, arXiv 2101.03961)
    balance: BalanceConfig = BalanceConfig()
    z_loss: ZLossConfig = ZLossConfig()

    @model_validator(mode="after")
    def _top_k_fits(self) -> Self:
        if self.top_k > self.num_experts:
            raise ValueError(f"moe.top_k {self.top_k} is larger than moe.num_experts {self.num_experts}")
        return self


class MtpConfig(Section):
    """Multi-token prediction: module k predicts the token k places behind the next (DeepSeek-V3, arXiv 2412.19437).

    Its loss, the mean over the modules, counts `coef`, moving linearly to `final_coef` from `anneal_from` on.
    """

    num_modules: Steps = 0
    coef: NonNegative = 0.3
    anneal_from: Steps | None = None  # step at which the coefficient starts to move; None: never
    anneal_steps: Count = 100
    final_coef: NonNegative = 0.1
    teacher: Literal["labels", "main_head"] = "labels"  # main_head: the main model's own distribution, no gradient
    freeze_main_until: Steps = 0  # steps during which only the modules learn

    def coefficient(self, step: int) -> float:
        """The coefficient at a 0-based step."""
        if self.anneal_from is None or step < self.anneal_from:
            return self.coef
        moved = min(1.0, (step + 1 - self.anneal_from) / self.anneal_steps)
        return self.coef + moved * (self.final_coef - self.coef)

    def freezes_main(self, step: int) -> bool:
        return self.num_modules > 0 and step < self.freeze_main_until


class GroupConfig(Section):
    """Optimizer of one parameter group. Under Muon `beta1` is the momentum and `eps` guards the norm."""

    optimizer: Literal["adamw", "muon"] = "adamw"
    lr: NonNegative = 3e-3
    weight_decay: NonNegative = 0.0
    beta1: Fraction = 0.9
    beta2: Fraction = 0.95  # AdamW only
    eps: Positive = 1e-8


class OptimConfig(Section):
    """One table row per parameter group (R801-7.2: matrices of attention and experts on Muon, the rest on AdamW)."""

    embedding: GroupConfig = GroupConfig(weight_decay=0.1)
    head: GroupConfig = GroupConfig(weight_decay=0.1)
    norm: GroupConfig = GroupConfig()
    bias: GroupConfig = GroupConfig()
    router: GroupConfig = GroupConfig(weight_decay=0.1)
    attention: GroupConfig = GroupConfig(optimizer="muon", weight_decay=0.1, beta1=0.95, eps=1e-7)
    experts: GroupConfig = GroupConfig(optimizer="muon", weight_decay=0.1, beta1=0.95, eps=1e-7)

    def group(self, name: str) -> GroupConfig:
        row: GroupConfig = getattr(self, name)
        return row


class MuonConfig(Section):
    """What all Muon groups share (R801-7.11: five iterations, update RMS matched to AdamW's)."""

    iterations: Count = 5
    nesterov: bool = True
    rms: Positive = 0.2  # RMS of the update per unit of learning rate
    compute: Literal["float32", "bfloat16"] = "float32"  # of the iterations
    split_heads: bool = False  # orthogonalise the query, key and value matrix of each head by itself


class ScheduleConfig(Section):
    """Learning-rate multiplier: linear warm-up, then flat until `decay_start`, then down to `min_ratio`."""

    kind: Literal["constant", "linear", "cosine"] = "constant"
    from_step: Steps = 0  # steps done before the schedule begins; a stage with a schedule of its own sets it
    warmup_steps: Steps = 10
    decay_start: Steps = 0
    decay_steps: Count = 300
    min_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1


class ParallelConfig(Section):
    """How a step is split; the global batch does not depend on any of it.

    Without `processes` the ranks are simulated in one process. With them, dp_size * cp_size processes share weights
    by FSDP2 and give equal results up to rounding.
    """

    processes: bool = False
    ep_size: Count = 1  # neighbouring processes that share the experts, whatever their data- and context-parallel rank
    dp_size: Count = 4
    cp_size: Count = 1  # ranks that share a sequence: of its 2 * cp_size chunks, rank r has r and 2 * cp_size - 1 - r
    places: Annotated[str, Field(pattern=r"^(\d+(,\d+)*)?$")] = ""  # rank in each place (process), as in '0,2,1,3'
    accumulation: Count = 1  # forward and backward passes whose gradients are summed before one update

    def ranks(self) -> tuple[int, ...]:
        """The rank that each place has. Raises ValueError when `places` is no order of the ranks."""
        size = self.dp_size * self.cp_size
        found = tuple(int(rank) for rank in self.places.split(",")) if self.places else tuple(range(size))
        if sorted(found) != list(range(size)):
            raise ValueError(f"parallel.places {self.places} does not name each of {size} ranks once")
        return found


class LossConfig(Section):
    """Language-model loss."""

    label_smoothing: Fraction = 0.0
    head_z_coef: NonNegative = 0.0  # z-loss on the output logits (PaLM, arXiv 2204.02311 section 5)


class ClipConfig(Section):
    """Gradient clipping by the global norm, and how many first steps go without it."""

    max_norm: NonNegative = 1.0  # 0 is off
    from_step: Steps = 0


class CheckpointConfig(Section):
    """Which checkpoints exist."""

    every: Count = 20
    keep: Steps = 0  # newest ones of a segment that stay; 0 keeps all
    at_end: bool = True


class DiagnosticsConfig(Section):
    """How often the wider statistics are written (steps). Loss, learning rates and speed are written always."""

    norms_every: Count = 1
    routing_every: Count = 1
    sources_every: Count = 1
    console_every: Count = 10
    detail_every: Steps = 0  # norms of single matrices and experts, and the parts of the step's time; 0 is off
    ranks_every: Steps = 0  # the loss of each data-parallel rank's sequences; 0 is off


Form = Literal["bf16", "mxfp8", "nvfp4"]


class ExpertNumerics(Section):
    """How routed experts are computed: by torch, by the fused kernel, or quantised (emulated low precision).

    The four flows matter to `quantised` only; their defaults are the report's choice (RC2-7.7, RC2-8.2, RC2-8.4).
    """

    products: Literal["torch", "kernels", "quantised"] = "torch"
    dispatch: Form = "mxfp8"  # tokens on their way to their experts
    forward: Form = "nvfp4"  # both operands of the forward products
    backward: Form = "mxfp8"  # both operands of the gradients' products
    combine: Form = "bf16"  # results on their way back


class NumericsConfig(Section):
    """Precision and what happens when a loss is not finite.

    With `compute` bfloat16 products and the residual stream are bfloat16; weights, optimizer, routers, norms, rotation
    and losses stay float32.
    """

    compute: Literal["float32", "bfloat16"] = "float32"
    router_input: Literal["float32", "bfloat16"] = "float32"  # rounding of what the router reads
    experts: ExpertNumerics = ExpertNumerics()
    activation_checkpointing: bool = False  # blocks are computed again in the backward pass: equal bits, less memory
    on_nonfinite: Literal["stop", "continue", "skip", "rewind"] = "stop"


class TrainConfig(Section):
    """Everything a training depends on beside its code and its corpus."""

    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1  # initial weights, data order, router jitter
    steps: Count = 300  # optimizer steps after which the training is complete
    model: ModelConfig = ModelConfig()
    moe: MoeConfig = MoeConfig()
    mtp: MtpConfig = MtpConfig()
    loss: LossConfig = LossConfig()
    optim: OptimConfig = OptimConfig()
    muon: MuonConfig = MuonConfig()
    clip: ClipConfig = ClipConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    data: DataConfig = DataConfig()
    parallel: ParallelConfig = ParallelConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    diagnostics: DiagnosticsConfig = DiagnosticsConfig()
    numerics: NumericsConfig = NumericsConfig()

    @model_validator(mode="after")
    def _ranks_share_the_batch(self) -> Self:
        parallel, data = self.parallel, self.data
        if data.batch_size % parallel.dp_size:
            raise ValueError(
                f"data.batch_size {data.batch_size} is not a multiple of parallel.dp_size {parallel.dp_size}"
            )
        if data.batch_size % (parallel.dp_size * parallel.accumulation):
            raise ValueError(
                f"data.batch_size {data.batch_size} is not a multiple of parallel.dp_size {parallel.dp_size} "
                f"times parallel.accumulation {parallel.accumulation}"
            )
        if parallel.dp_size * parallel.cp_size % parallel.ep_size or self.moe.num_experts % parallel.ep_size:
            raise ValueError(
                f"parallel.ep_size {parallel.ep_size} does not divide both parallel.dp_size * parallel.cp_size = "
                f"{parallel.dp_size * parallel.cp_size} and moe.num_experts {self.moe.num_experts}"
            )
        if parallel.cp_size > 1 and data.seq_len % (2 * parallel.cp_size):
            raise ValueError(
                f"data.seq_len {data.seq_len} is not a multiple of 2 * parallel.cp_size = {2 * parallel.cp_size}"
            )
        return self

    @model_validator(mode="after")
    def _processes_fit(self) -> Self:
        parallel = self.parallel
        if parallel.ep_size > 1 and not parallel.processes:
            raise ValueError("parallel.ep_size spreads experts over processes: set parallel.processes to true")
        parallel.ranks()
        if not parallel.processes:
            return self
        if self.moe.router_jitter:
            raise ValueError("moe.router_jitter draws for all tokens in order: not with parallel.processes")
        if parallel.cp_size > 1 and self.mtp.num_modules and self.mtp.teacher == "main_head":
            raise ValueError("mtp.teacher main_head looks ahead: not with parallel.cp_size and parallel.processes")
        return self

    @model_validator(mode="after")
    def _layers_fit(self) -> Self:
        if self.moe.num_dense_layers >= self.model.num_layers:
            raise ValueError(
                f"moe.num_dense_layers {self.moe.num_dense_layers} leaves no expert layer of "
                f"model.num_layers {self.model.num_layers}"
            )
        if self.mtp.num_modules >= self.data.seq_len:
            raise ValueError(f"mtp.num_modules {self.mtp.num_modules} needs a longer data.seq_len {self.data.seq_len}")
        return self

    @model_validator(mode="after")
    def _positions_can_be_told_apart(self) -> Self:
        if self.data.seq_len > self.model.longest_distance():
            raise ValueError(
                f"data.seq_len {self.data.seq_len} is beyond the rotation of model.rope_base {self.model.rope_base}: "
                f"its slowest pair turns once in {self.model.longest_distance():.0f} positions"
            )
        return self
