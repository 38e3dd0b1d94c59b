"""The chat without a model where it decides: which passage it shows first, or that the store does not know."""

import json
from pathlib import Path
from typing import Any

from deciding import CASE_FEATURES, PASSAGE_FEATURES, Candidate, Weights, is_meant, leading, ordered, weigh

HERE = Path(__file__).parent


def weights_of(params: dict[str, float]) -> Weights:
    def table(group: str) -> dict[str, float]:
        return {key.removeprefix(group): value for key, value in params.items() if key.startswith(group)}

    slots: dict[str, dict[str, float]] = {}
    for key, value in table("slot_").items():
        slot, _, part = key.partition("_")
        slots.setdefault(slot, {})[part] = value
    return Weights(
        case=[params[f"case_{name}"] for name in CASE_FEATURES],
        passage=[params[f"passage_{name}"] for name in PASSAGE_FEATURES],
        part=table("part_"),
        form=table("form_"),
        slot=slots,
    )


def answer(asked: dict[str, Any], params: dict[str, float]) -> dict[str, Any]:
    weights = weights_of(params)
    weights.slot.setdefault(asked["slot"], {})
    cases = {each["id"]: each for each in asked["cases"]}
    candidates = [
        Candidate(case_id=each["case"], part=each["part"], features=each["features"], fits=each["fits"])
        for each in asked["passages"]
    ]
    near, scores = weigh(weights, asked["slot"], {key: each["features"] for key, each in cases.items()}, candidates)
    first = cases[leading(near)]
    if first["lacks"] or not is_meant(near[first["id"]], sure=first["sure"], least=params["least_near"]):
        return {"unknown": True}
    ids = [each["id"] for each in asked["passages"]]
    return {"named": [ids[place] for place in ordered(scores, ids, asked["rules"], params["rules_first"])]}


class Episode:
    def __init__(self, desk: Any) -> None:
        self.desk = desk

    def invoke(self, state: dict[str, Any], config: dict[str, Any]) -> None:
        asked = json.loads(Path("asked.json").read_text())
        params = json.loads((HERE / "params.json").read_text())
        Path("answer.json").write_text(json.dumps(answer(asked, params)))
        self.desk.tool("submit", {})


def build(desk: Any) -> Episode:
    return Episode(desk)
