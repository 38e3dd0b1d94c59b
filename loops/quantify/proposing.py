"""The deployment that a person may approve: option A, the prompt, or option B, the compact classifier."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from context_store import Store
from context_store.records import NewProposal, Proposal
from contracts.enums import EffectKind
from contracts.evidence import EvidenceRef
from loops.quantify.card import prompt_sentence
from loops.quantify.casebook import CaseBook
from loops.quantify.need import Need, Option
from loops.quantify.stored import sha256_of

VALID_S = 14 * 24 * 3600.0
Json = Mapping[str, Any]


def propose_deployment(store: Store, book: CaseBook, option: Option) -> Proposal:
    """Of the version that stands, or of its prompt."""
    need, standing, final = book.need(), book.standing(), book.final()
    assert standing is not None
    assert final is not None
    base, is_prompt = book.base_sha256(), option is Option.PROMPT
    what = f"its labelling prompt for {final['prompt']['model']}" if is_prompt else f"version {standing['number']}"
    payload = {
        "name": need.name, "case_id": book.case_id, "version": standing["number"], "option": option.value,
        "sha256": final["prompt"]["sha256"] if is_prompt else sha256_of(standing), "base": base,
        **({"model": final["prompt"]["model"]} if is_prompt else {}),
    }  # fmt: skip
    return store.proposals.put(
        NewProposal(
            investigation_id=book.case_id,
            kind=EffectKind.DEPLOY_CLASSIFIER,
            title=f"deploy {what} of the classifier {need.name}",
            payload=payload,
            diff="",
            base_state=f"{need.name} stands at {base[:12]}" if base else f"nothing is deployed as {need.name}",
            risk=_risk(need, standing, final, option),
            verification="what is put in place is read back and must have the approved hash; else it is taken back",
            evidence=(EvidenceRef(kind="investigation", id=book.case_id),),
            expires_at=store.knowledge.investigation(book.case_id).opened_at + VALID_S,
        )
    )


def choose(need: Need, final: Json) -> Option | None:
    """What the need asks for, where it is better than what is deployed and nowhere worse; `best` is the prompt only
    where it is better than the classifier too. None: what is deployed stays."""
    prompt = final["prompt"]
    prompt_may = prompt is not None and _is_better(prompt.get("against_deployed"))
    model_may = final["version"] > 0 and _is_better(final.get("against_deployed"))
    if need.option is Option.PROMPT:
        return Option.PROMPT if prompt_may else None
    wins = prompt_may and prompt["decision"]["is_taken"] and not prompt["is_reference"]
    if need.option is Option.BEST and wins:
        return Option.PROMPT
    return Option.MODEL if model_may else None


def why_not(need: Need, final: Json | None) -> str:
    """Why `choose` gives nothing."""
    if final is None:
        return "nothing was held against new texts"
    side = final["prompt"] if need.option is Option.PROMPT else final
    decision = None if side is None else side.get("against_deployed")
    if decision is None:
        return "no language model labelled, so there is no prompt" if side is None else "no version was taken"
    return f"what is deployed stays: {decision['reason']}"


def _is_better(decision: Json | None) -> bool:
    """Than what is deployed, where something is."""
    return decision is None or bool(decision["is_taken"])


def _risk(need: Need, standing: Json, final: Json, option: Option) -> str:
    side = final["prompt"] if option is Option.PROMPT else {**standing, "held_out": final["held_out"]}
    held = "not measured" if side["held_out"] is None else _plain(side["held_out"]["f1"])
    said = [f"agreement with {need.labellers[0]} labels: F1 {_plain(side['evaluation']['f1'])}, held out {held}"]
    if standing["decision"]["blind"]:
        said.append(f"too few texts to notice a loss in {', '.join(standing['decision']['blind'][:5])}")
    if final["prompt"] is not None:
        said.append(prompt_sentence(final["prompt"]).rstrip("."))
    if option is Option.PROMPT:
        said.append("every text costs a call of the language model")
    return "; ".join(said)


def _plain(score: Json) -> str:
    return "-" if score["value"] is None else f"{score['value']:.3f} ({score['low']:.3f} to {score['high']:.3f})"
