"""Finding the recipe of a project. What a project's author did wrong becomes a message with file and line."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path

from pydantic import ValidationError

from contracts.errors import LatheError, UserInputError
from trainer.config import TrainConfig
from trainer.recipe import Recipe
from trainer.section import config_error


def load_recipe(project: Path, entry: str) -> Recipe:
    """The recipe that `entry` (`module:function`) returns, with `project` first on the import path.

    Raises ConfigError for a wrong config field and UserInputError for every other fault of the project.
    """
    module_name, _, function = entry.partition(":")
    if str(project) not in sys.path:
        sys.path.insert(0, str(project))
    try:
        module = importlib.import_module(module_name)
        recipe = getattr(module, function)()
    except LatheError:
        raise
    except ValidationError as error:
        raise config_error(error, known=TrainConfig().flat()) from error
    except Exception as error:
        raise _project_fault(error, project, module_name, function) from error
    if not isinstance(recipe, Recipe):
        raise UserInputError(
            f"{entry} returned {type(recipe).__name__}, not a Recipe",
            remedy="return trainer.Recipe(config=..., parts=...)",
        )
    return recipe


def _project_fault(error: Exception, project: Path, module_name: str, function: str) -> UserInputError:
    if isinstance(error, ModuleNotFoundError) and error.name == module_name:
        return UserInputError(
            f"{project} has no {module_name.replace('.', '/')}.py",
            remedy=f"add the file with `def {function}() -> trainer.Recipe`, or name another entry",
        )
    return UserInputError(
        f"{where(error, project)}: {type(error).__name__}: {error}", remedy="correct the project's code and start again"
    )


def is_project_fault(error: BaseException, project: Path) -> bool:
    """True when the error was raised while the project's own code ran."""
    return bool(_project_frames(error, project))


def where(error: BaseException, project: Path) -> str:
    """`file:line` of the innermost project frame of an error, else the project itself."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = _project_frames(error, project)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else str(project)


def _project_frames(error: BaseException, project: Path) -> list[traceback.FrameSummary]:
    frames = traceback.extract_tb(error.__traceback__)
    return [f for f in frames if Path(f.filename).is_relative_to(project) and "site-packages" not in f.filename]
