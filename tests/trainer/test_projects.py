"""Mistakes in a project become a message with the place and a remedy, in the log too."""

from __future__ import annotations

import pytest
from small_training import Trainings, read_log

from contracts.errors import NotFound, UserInputError
from trainer.session import run_launch


@pytest.mark.parametrize(
    ("recipe", "message", "remedy"),
    [
        ("", "has no recipe.py", "def recipe() -> trainer.Recipe"),
        ("def recipe(:\n", "recipe.py:1: SyntaxError", "correct the project's code"),
        ("def recipe():\n    return 1\n", "returned int, not a Recipe", "trainer.Recipe"),
        ("import numpie\n", "recipe.py:1: ModuleNotFoundError: No module named 'numpie'", "correct"),
        (
            "from trainer import Recipe, TrainConfig\n\ndef recipe():\n    return Recipe(config=TrainConfig(step=1))\n",
            "unknown config field 'step'", "steps",
        ),
        (
            "from trainer import Recipe, Parts\n\ndef recipe():\n"
            "    return Recipe(parts=Parts(learning_rate=lambda step, schedule: 1 / 0))\n",
            "recipe.py:4: ZeroDivisionError", "it goes on from the last checkpoint",
        ),
    ],
    ids=["no-recipe", "syntax", "type", "import", "recipe-field", "part"],
)  # fmt: skip
def test_mistakes_of_the_project(trainings: Trainings, recipe: str, message: str, remedy: str) -> None:
    path = trainings.project / "recipe.py"
    path.write_text(recipe) if recipe else path.unlink()
    with pytest.raises(UserInputError) as caught:
        run_launch(trainings.launch(), lambda: False)
    finished = read_log(trainings.run_folder).finished
    assert finished.reason == "failed"
    assert message in finished.message == caught.value.message
    assert remedy in finished.remedy == caught.value.remedy


def test_checkpoint_that_does_not_exist(trainings: Trainings) -> None:
    with pytest.raises(NotFound, match="there is no checkpoint"):
        run_launch(trainings.launch(start_checkpoint="/nowhere/step-000004"), lambda: False)
    assert read_log(trainings.run_folder).finished.reason == "failed"


def test_built_in_recipe(trainings: Trainings) -> None:
    """A project without a recipe of its own can train the small model."""
    (trainings.project / "recipe.py").unlink()
    launch = trainings.launch(entry="trainer.recipes.small:recipe", max_step=1)
    assert run_launch(launch, lambda: False) == 0
    assert list(read_log(trainings.run_folder).metrics) == [1]
