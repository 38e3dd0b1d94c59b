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

VALID_S = 14 * 24 * 3600.0
Json = Mapping[str, Any]


def propose_deployment(store: Store, book: CaseBook, base: str) -> Proposal:
    """Of the version that stands. `base`: hash of what is deployed now."""
    need, standing, final = book.need(), book.standing(), book.final()
    assert standing is not None
    assert final is not None
    option = choose(need, final)
    sha256 = final["prompt"]["sha256"] if option is Option.PROMPT else standing["model_sha256"]
    what = "its labelling prompt" if option is Option.PROMPT else f"version {standing['number']}"
    payload = {
        "name": need.name, "case_id": book.case_id, "version": standing["number"], "option": option.value,
        "sha256": sha256, "base": base,
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


def choose(need: Need, final: Json) -> Option:
    """The option the need asks for; `best` is the prompt only where it is better than the classifier."""
    prompt = final["prompt"]
    if prompt is None or need.option is Option.MODEL:
        return Option.MODEL
    if need.option is Option.PROMPT:
        return Option.PROMPT
    is_better = prompt["decision"]["is_taken"] and not prompt["is_reference"]
    return Option.PROMPT if is_better else Option.MODEL


def _risk(need: Need, standing: Json, final: Json, option: Option) -> str:
    f1, held = standing["evaluation"]["f1"], final["held_out"]["f1"]
    said = [f"agreement with {need.labellers[0]} labels: F1 {_plain(f1)}, held out {_plain(held)}"]
    if standing["decision"]["blind"]:
        said.append(f"too few texts to notice a loss in {', '.join(standing['decision']['blind'][:5])}")
    if final["prompt"] is not None:
        said.append(prompt_sentence(final["prompt"]).rstrip("."))
    if option is Option.PROMPT:
        said.append("every text costs a call of the language model")
    return "; ".join(said)


def _plain(score: Json) -> str:
    return "-" if score["value"] is None else f"{score['value']:.3f} ({score['low']:.3f} to {score['high']:.3f})"
