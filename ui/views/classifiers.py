"""Classifiers: label, see how versions compare and where they are wrong, and decide what is deployed."""

from __future__ import annotations

import streamlit as st

from ui import links, session
from ui.case import decision, fate
from ui.classified import Classifier, WholeClassifier
from ui.classifying import confusion, labelling, ladder
from ui.classifying.labelling import interval
from ui.client import Client
from ui.components import chips
from ui.components.markup import escape, report
from ui.components.messages import errors_shown, show_empty

LIVE_S = 4.0
_PARTS = ("Label", "Versions", "Confusion", "Deployment", "Card")


def page() -> None:
    client = session.client()
    st.html(
        "<h1 class='lt-page'>Classifiers</h1><p class='lt-lead'>A need becomes a labelled set, versions that are held "
        "against it, and a deployment that somebody approves.</p>"
    )
    found = {each.case_id: each for each in client.classifiers()}
    if not found:
        show_empty(
            "Nobody has stated a need yet", "`lathe classifier new NAME --need TEXT --documents FILE` opens one."
        )
        return
    wanted = st.query_params.get("case")
    chosen = st.selectbox(
        "Classifier", list(found), index=list(found).index(wanted) if wanted in found else 0,
        format_func=lambda case_id: f"{found[case_id].name} ({case_id})", width=480,
    )  # fmt: skip
    st.query_params["case"] = chosen
    st.html(_facts(found[chosen]))
    begin = "Label" if found[chosen].waiting else "Versions"
    part = st.segmented_control("Part", _PARTS, default=begin, label_visibility="collapsed") or begin
    every = LIVE_S if part == "Versions" and found[chosen].state != "closed" else None
    st.fragment(_show, run_every=every)(client, chosen, part)


def _facts(classifier: Classifier) -> str:
    address = escape(links.investigation(classifier.case_id))
    facts = [
        chips.state(classifier.state), chips.fact("finds", classifier.classes[0]),
        chips.fact("among", f"{classifier.num_texts:,} texts"),
        chips.fact("version that stands", "none" if classifier.standing is None else classifier.standing),
        chips.fact("F1", interval(classifier.f1)), chips.fact("wait for a label", classifier.waiting),
        f'<a href="{address}" target="_self">The case and its ledger</a>',
    ]  # fmt: skip
    return f'<p class="lt-lead">{escape(classifier.need)}</p><div class="lt-facts">{"".join(facts)}</div>'


def _show(client: Client, case_id: str, part: str) -> None:
    with errors_shown():
        _show_part(client, client.classifier(case_id), part)


def _show_part(client: Client, whole: WholeClassifier, part: str) -> None:
    if part == "Label":
        labelling.show(whole.classifier, whole.agreements)
    elif part == "Versions":
        ladder.show(whole.ladder)
    elif part == "Confusion":
        confusion.show(whole)
    elif part == "Deployment":
        _show_deployment(client, whole.classifier)
    else:
        st.markdown(report(whole.card))


def _show_deployment(client: Client, classifier: Classifier) -> None:
    proposals = [each for each in client.proposals() if each.investigation_id == classifier.case_id]
    if not proposals:
        show_empty(
            "Nothing is proposed yet", "The loop proposes a deployment when its error analysis suggests no more."
        )
        return
    effects = client.effects()
    for proposal in proposals:
        standing = client.standing(proposal.id)
        st.html(decision.head(proposal, standing))
        if proposal.state == "open":
            decision.show_form(proposal, standing, session.principal(), by_keys=len(proposals) == 1)
        else:
            st.html(decision.decided(proposal) + f"<p>{fate.of(proposal, effects)}</p>")
