"""The kernels under the trainer, one folder per operation.

grouped_gemm      experts' matrix products on ragged groups, the fused expert MLP
router            logits to experts, gates, loads, z-loss and balance statistics
mxfp8, nvfp4      block-scaled number formats, bit-exact on every backend
quantised_gemm    grouped GEMM emulated in those formats, forward and backward
packed_attention  causal attention inside each document of a packed row
newton_schulz     batched orthogonalisation for Muon
norm_rope         RMSNorm over the head, then rotary position embedding
cross_entropy     output layer and loss with z-loss, logits never whole

Every operation has an obviously right `reference`, a fast `cpu` path and a `triton` kernel; `backend=` overrides the
choice. Importing this package imports neither torch nor triton.
"""
