"""Finds repeated steps: the same action with the same answer, alone or in a cycle; then it answers with a nudge."""

import json

from mechanism import Action
from mechanism import Mechanism as Base


class Mechanism(Base):
    def __init__(self, params: dict, desk: object) -> None:
        super().__init__(params, desk)
        self.answers: dict[str, str] = {}
        self.repeats: dict[str, int] = {}

    def instead(self, action: Action) -> str | None:
        key = json.dumps(action, sort_keys=True)
        if action["tool"] not in ("edit", "shell", "fit") or self.repeats.get(key, 0) < 1:
            return None
        args = action["args"]
        if action["tool"] == "edit":
            return f"AVOID {args['path']}:{args['line']} -> {str(args['text']).strip()}"
        return f"AVOID {args['command']}" if action["tool"] == "shell" else self.answers[key]

    def after(self, action: Action, text: str) -> str:
        key = json.dumps(action, sort_keys=True)
        if self.answers.get(key) == text or key not in self.answers:  # a changed answer is progress: polling is honest
            self.repeats[key] = self.repeats.get(key, 0) + 1
        else:
            self.repeats[key] = 0
        self.answers[key] = text
        return text
