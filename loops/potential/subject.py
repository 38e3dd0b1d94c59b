"""A run's checkpoint as something to evaluate and to tune: its configuration from the store, its weights from disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from context_store import Store
from contracts.errors import UserInputError
from contracts.events import Scalar
from loops.potential.plan import checkpoints
from trainer.config import TrainConfig
from trainer.recipe import Recipe

if TYPE_CHECKING:
    from loops.evals.checkpoint_model import CheckpointModel
    from trainer.training import TrainingState

_ONE_RANK: dict[str, Scalar] = {
    "parallel.processes": False,
    "parallel.dp_size": 1,
    "parallel.cp_size": 1,
    "parallel.ep_size": 1,
    "parallel.places": "",
    "parallel.accumulation": 1,
    "moe.router_jitter": 0.0,
}


@dataclass(frozen=True, kw_only=True)
class Subject:
    """`trained_by` has the trainer's own parts: the same SFT for every checkpoint, whatever the project replaced."""

    run_id: str
    step: int
    sha256: str
    stage: str
    trained_by: Recipe
    path: Path

    @property
    def num_tokens(self) -> int:
        """Read before the checkpoint, if batch and sequence had these sizes throughout."""
        data = self.trained_by.config.data
        return self.step * data.batch_size * data.seq_len

    @property
    def num_parameters(self) -> int:
        from trainer.weights import num_parameters, parameter_shapes

        config = self.trained_by.config
        return num_parameters(parameter_shapes(config.model, config.moe, config.mtp))

    def state(self) -> TrainingState:
        from trainer.checkpoint import load_checkpoint  # imports torch

        return load_checkpoint(self.path)

    def model(self, state: TrainingState, batch_size: int = 32) -> CheckpointModel:
        from loops.evals.checkpoint_model import CheckpointModel

        config = self.trained_by.config
        starts = config.data.documents == "stream"
        return CheckpointModel(
            f"{self.run_id}@{self.step}", config, state.weights, starts=starts, batch_size=batch_size
        )


def subject(store: Store, run_id: str, step: int) -> Subject:
    """Raises NotFound for a checkpoint that is not in the store, UserInputError for one this trainer did not make."""
    checkpoint = checkpoints(store, run_id).get(step)
    if checkpoint is None:
        store.evals.lineage_at(run_id, step)  # raises NotFound, naming what there is
        raise AssertionError("a checkpoint that has lineage is listed")
    effective = store.runs.effective(run_id, checkpoint.segment, step)
    declared = store.runs.declared(run_id, checkpoint.segment)
    declared |= {key: value for key, value in effective.items() if key.startswith("model.")}  # of the present stage
    known = TrainConfig().flat()
    own = {key: value for key, value in declared.items() if key in known}
    if "model.d_model" not in own:
        raise UserInputError(
            f"run '{run_id}' was not trained by the embedded trainer: its weights cannot be read here",
            remedy="serve the checkpoint on an OpenAI-compatible endpoint, or import scores: lathe evals import LOG",
        )
    if own.get("data.tokenizer"):
        raise UserInputError(
            f"run '{run_id}' reads the tokens of a tokenizer; tiny SFT and these tasks are for models of bytes",
            remedy="serve the checkpoint on an OpenAI-compatible endpoint, or import scores: lathe evals import LOG",
        )
    return Subject(
        run_id=run_id,
        step=step,
        sha256=checkpoint.sha256,
        stage=str(effective.get("stage.name", "")),
        trained_by=Recipe(config=TrainConfig().with_overrides(own | _ONE_RANK)),
        path=Path(checkpoint.path),
    )
