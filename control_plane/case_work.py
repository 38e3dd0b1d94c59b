"""One piece of a case's work, as a process: `python -m control_plane.case_work EFFECT_KEY`, begun by the executor.

A loop's pieces of work are the functions in `WORK` of its module; it opens the Lathe of its environment.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agents.llm.errors import ModelUnavailable
from context_store import Store
from context_store.records import Effect
from contracts.enums import EffectKind, EffectState
from contracts.errors import DatabaseUnavailable, LatheError, NotPermitted, UserInputError
from control_plane.effects.case_work import PUT_OFF, CaseWorkPayload, WorkFiles, case_of
from control_plane.effects.effect_kind import parse_payload
from control_plane.settings import load_settings
from control_plane.wiring import Lathe
from loops.core import Work, Workplace

MODULES: Mapping[str, str] = {  # of each loop that has work of its own
    "classifier": "loops.quantify.work",
    "evolve": "loops.evolve.work",
    "potential": "loops.potential.work",
    "recipe": "loops.potential.recipe.work",
}
_LOOK_S = 1.0
_MODEL_AWAY_S = 15.0  # before a piece of work that no model answers is begun again


def main(key: str) -> None:
    """Do it and write its answer, or why there is none."""
    os.nice(10)
    with Lathe.open(load_settings()) as lathe:
        effect = lathe.store.effects.get(key)
        files = WorkFiles.of(lathe.settings.cases_folder, effect)
        threading.Thread(target=_end_when_halted, args=(lathe.store,), daemon=True).start()
        try:
            answer = {"answer": _do(lathe, effect, files.folder)}
        except DatabaseUnavailable:
            raise
        except ModelUnavailable:  # nothing it did is lost: it is begun again, as long as its reservation lasts
            threading.Event().wait(_MODEL_AWAY_S)
            os._exit(PUT_OFF)
        except LatheError as error:
            answer = {"error": error.message, "remedy": error.remedy}
        _write(files.answer, answer)


def work_of(loop: str, name: str) -> Work:
    """Raises UserInputError for a name that the loop does not know."""
    known: Mapping[str, Work] = importlib.import_module(MODULES[loop]).WORK if loop in MODULES else {}
    if name not in known:
        raise UserInputError(
            f"the {loop} loop has no work called '{name}'", remedy="one of: " + (", ".join(sorted(known)) or "none")
        )
    return known[name]


def _do(lathe: Lathe, effect: Effect, folder: Path) -> Any:
    from control_plane.chat import mind_of

    store, case_id = lathe.store, case_of(effect)

    def tell(text: str) -> None:
        store.activity.publish("progress", text, investigation_id=case_id)

    place = Workplace(
        store=store,
        case_id=case_id,
        folder=folder,
        tell=tell,
        door=lambda: mind_of(lathe).door_of_case(store, case_id),
    )
    if effect.kind is EffectKind.OPEN_SEAL:
        return _open_seal(place, effect)
    payload = parse_payload(CaseWorkPayload, effect)
    return work_of(store.knowledge.investigation(case_id).loop, payload.work)(place, payload.arguments)


def _open_seal(place: Workplace, effect: Effect) -> Any:
    """No loop can ask for it as a piece of work: only an effect that was claimed under an approval does it."""
    from loops.evolve.work import seal

    if effect.state is not EffectState.RUNNING or effect.proposal_id is None:
        raise NotPermitted(
            "nobody has approved that the seal is opened", remedy="have it approved and wait for a worker"
        )
    return seal(place, place.store.proposals.get(effect.proposal_id).decided_by)


def _end_when_halted(store: Store) -> None:
    while not threading.Event().wait(_LOOK_S):
        try:
            if store.policies.halted() is not None:
                os._exit(PUT_OFF)
        except DatabaseUnavailable:
            continue


def _write(path: Path, answer: Mapping[str, Any]) -> None:
    draft = path.with_suffix(".new")
    with draft.open("w") as file:
        file.write(json.dumps(answer))
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


if __name__ == "__main__":
    main(sys.argv[1])
