"""The one seam to Lathe: everything that the pages ask of the API and tell it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from ui.catalog import (
    Config,
    DetectorRecord,
    Evolution,
    EvolutionRun,
    Findings,
    Hit,
    LayerMap,
    LedgerEntry,
    Loop,
    LoopScores,
    Mark,
    Mixture,
    Pipeline,
    Score,
    Subset,
    Why,
)
from ui.classified import Cell, Classifier, NextQuestion, WholeClassifier, WrongText
from ui.conversation import Answer, Thread, WholeThread
from ui.oversight import Autonomy, Flows, MadeToken, Policies, Schedule, System, Token, WrittenReport
from ui.potential import Decision, Outputs, Potential
from ui.records import (
    Activity,
    Budget,
    Case,
    Difference,
    Effect,
    Health,
    Investigation,
    Negative,
    Opened,
    Project,
    Proposal,
    Run,
    RunDetail,
    Series,
    Standing,
    TimelineEvent,
    WholeNegative,
)
from ui.transport import ApiError, Transport, read

Piece = tuple[str, str | Answer]  # of an answer that is under way
_ANSWER_S = 600.0  # the longest silence of a model that is answering


@dataclass(frozen=True, kw_only=True)
class Client(Transport):
    """What a person can ask and tell. Every method raises ApiError."""

    def health(self) -> Health:
        return self.get("/health", Health)

    def system(self) -> System:
        return self.get("/system", System)

    def projects(self) -> tuple[Project, ...]:
        return self.all("/projects", Project, key="projects")

    def runs(self, *, role: str | None = None, project: str | None = None, limit: int = 50) -> tuple[Run, ...]:
        return self.get("/runs", tuple[Run, ...], {"role": role, "project": project, "limit": limit}, key="runs")

    def run(self, run_id: str) -> RunDetail:
        return self.get(f"/runs/{_part(run_id)}", RunDetail)

    def series_names(self, run_id: str, *, statistic: str | None = None) -> tuple[str, ...]:
        return self.get(f"/runs/{_part(run_id)}/series", tuple[str, ...], {"statistic": statistic}, key="names")

    def points(
        self,
        run_id: str,
        names: Sequence[str],
        *,
        buckets: int,
        lo: int | None = None,
        hi: int | None = None,
        view: str = "canonical",
    ) -> tuple[Series, ...]:
        """Downsampled by the API to about `buckets` buckets that keep extremes and non-finite points.

        The view `full` also has the points that a resume superseded, segment after segment.
        """
        if not names:
            return ()
        query = {"name": list(names), "buckets": buckets, "lo": lo, "hi": hi, "view": view}
        return self.get(f"/runs/{_part(run_id)}/points", tuple[Series, ...], query, key="series")

    def layer_map(self, run_id: str, names: Sequence[str], *, columns: int, lo: int | None, hi: int | None) -> LayerMap:
        query = {"name": list(names), "columns": columns, "lo": lo, "hi": hi}
        return self.get(f"/runs/{_part(run_id)}/map", LayerMap, query)

    def timeline(self, run_id: str) -> tuple[TimelineEvent, ...]:
        return self.get(f"/runs/{_part(run_id)}/timeline", tuple[TimelineEvent, ...], key="events")

    def findings(self, run_id: str) -> Findings:
        """What was found in the run so far; nothing is looked for anew."""
        return self.get(f"/runs/{_part(run_id)}/findings", Findings)

    def potentials(self) -> tuple[Investigation, ...]:
        """Cases that measure what a run can become, newest first."""
        return self.get("/potential", tuple[Investigation, ...], key="cases")

    def potential(self, case_id: str) -> Potential:
        return self.get(f"/potential/{_part(case_id)}", Potential)

    def potential_outputs(self, case_id: str, file: str) -> Outputs:
        """Raw outputs of a number of that case."""
        return self.get(f"/potential/{_part(case_id)}/outputs", Outputs, {"file": file})

    def decisions(self) -> tuple[Decision, ...]:
        """Of the recipe loop, newest first."""
        return self.get("/potential/decisions", tuple[Decision, ...], key="decisions")

    def difference(self, before: str, after: str) -> Difference:
        """By what the newest segment of run `after` differs from that of `before`."""
        return self.get("/diff", Difference, {"before": before, "after": after})

    def investigations(self) -> tuple[Investigation, ...]:
        return self.get("/investigations", tuple[Investigation, ...], key="investigations")

    def investigate(self, run_id: str) -> Opened:
        return read(Opened, self.send("POST", "/investigations", json={"run_id": run_id}), "/investigations")

    def investigation(self, investigation_id: str) -> Case:
        return self.get(f"/investigations/{_part(investigation_id)}", Case)

    def report(self, investigation_id: str) -> WrittenReport:
        """By rules, with plots."""
        return self.get(f"/investigations/{_part(investigation_id)}/report", WrittenReport)

    def marks(self, subjects: Sequence[str]) -> dict[str, Mark]:
        """What counts of each of these findings that somebody spoke about."""
        found = self.get("/triage", tuple[Mark, ...], {"subject": list(subjects)}, key="marks") if subjects else ()
        return {mark.subject: mark for mark in found}  # the last one of a subject stays

    def mark(self, subject: str, kind: str, *, comment: str, for_s: float | None) -> None:
        self.send("POST", "/triage", json={"subject": subject, "kind": kind, "comment": comment, "for_s": for_s})

    def detectors(self) -> tuple[DetectorRecord, ...]:
        return self.get("/triage/detectors", tuple[DetectorRecord, ...], key="detectors")

    def loops(self) -> tuple[Loop, ...]:
        return self.get("/loops", tuple[Loop, ...], key="loops")

    def loop_scores(self, name: str) -> LoopScores:
        return self.get(f"/loops/{_part(name)}/scores", LoopScores)

    def loop_ledger(self, name: str, *, case_id: str) -> tuple[LedgerEntry, ...]:
        """Newest first."""
        query = {"case_id": case_id, "limit": 1000}
        return self.get(f"/loops/{_part(name)}/ledger", tuple[LedgerEntry, ...], query, key="entries")

    def classifiers(self) -> tuple[Classifier, ...]:
        """Newest first."""
        return self.all("/classifiers", Classifier, key="classifiers")

    def classifier(self, case_id: str) -> WholeClassifier:
        return self.get(f"/classifiers/{_part(case_id)}", WholeClassifier)

    def next_question(self, case_id: str) -> NextQuestion:
        """The next text for this person to label."""
        return self.get(f"/classifiers/{_part(case_id)}/next", NextQuestion)

    def label(self, case_id: str, batch: str, item: str, label: str) -> None:
        body = {"batch": batch, "item": item, "label": label}
        self.send("POST", f"/classifiers/{_part(case_id)}/labels", json=body)

    def confusion(self, case_id: str, version: int, attribute: str) -> tuple[Cell, ...]:
        """`attribute`: by which it is split; "" for all texts together."""
        query = {"version": version, "attribute": attribute}
        return self.get(f"/classifiers/{_part(case_id)}/confusion", tuple[Cell, ...], query, key="cells")

    def confused_texts(
        self, case_id: str, version: int, attribute: str, *, slice_value: str, wanted: str, said: str
    ) -> tuple[WrongText, ...]:
        query = {"version": version, "attribute": attribute, "slice": slice_value, "wanted": wanted, "said": said}
        return self.get(f"/classifiers/{_part(case_id)}/texts", tuple[WrongText, ...], query, key="texts")

    def evolution_runs(self) -> tuple[EvolutionRun, ...]:
        return self.all("/evolution", EvolutionRun, key="runs")

    def evolution(self, case_id: str) -> Evolution:
        return self.get(f"/evolution/{_part(case_id)}", Evolution)

    def promote(self, case_id: str) -> str:
        """The id of the proposal to use the run's incumbent."""
        path = f"/evolution/{_part(case_id)}/promotion"
        return str(self.send("POST", path, json={})["proposal"]["id"])

    def open_seal(self, case_id: str) -> str:
        """The id of the proposal to open the run's sealed tasks."""
        return str(self.send("POST", f"/evolution/{_part(case_id)}/seal")["proposal"]["id"])

    def pipelines(self) -> tuple[Pipeline, ...]:
        return self.all("/data/pipelines", Pipeline, key="pipelines")

    def subsets(self, pipeline_id: str) -> tuple[Subset, ...]:
        return self.all("/data/subsets", Subset, {"pipeline_id": pipeline_id}, key="subsets")

    def mixture(self, run_id: str) -> Mixture:
        return self.get("/data/mixture", Mixture, {"run_id": run_id})

    def scores(self, run_id: str) -> tuple[Score, ...]:
        return self.all("/evals", Score, {"run_id": run_id}, key="scores")

    def why(self, kind: str, id: str) -> Why:  # noqa: A002 - the word for it
        """Everything the object `kind:id` rests on."""
        return self.get("/why", Why, {"kind": kind, "id": id}, key="why")

    def commit_diff(self, project_id: str, commit: str) -> str:
        return self.get(f"/projects/{_part(project_id)}/commits/{_part(commit)}", str, key="diff")

    def config(self, run_id: str) -> Config:
        """What the newest segment declared, and what was really used at its end."""
        return self.get(f"/runs/{_part(run_id)}/config", Config)

    def proposals(self, *, state: str | None = None) -> tuple[Proposal, ...]:
        """Oldest first."""
        return self.all("/proposals", Proposal, {"state": state}, key="proposals")

    def standing(self, proposal_id: str) -> Standing:
        """Who approved the proposal so far, and how many have to."""
        return self.get(f"/proposals/{_part(proposal_id)}", Standing)

    def effects(self, *, state: str | None = None) -> tuple[Effect, ...]:
        """In the order of the requests."""
        return self.all("/effects", Effect, {"state": state}, key="effects")

    def activity(self, *, after: int | None = None, limit: int = 200) -> tuple[Activity, ...]:
        """Ascending: those after one that is known, else the newest."""
        wish = {"newest": True} if after is None else {"after": after}
        return self.get("/activity", tuple[Activity, ...], {**wish, "limit": limit}, key="activity")

    def negatives(self, query: str = "") -> tuple[Negative, ...]:
        """The best for the query; without one every one that is stored, newest first."""
        if query.strip():
            return self.get("/negatives", tuple[Negative, ...], {"q": query}, key="negatives")
        return self.all("/negatives", Negative, {"limit": 500}, key="negatives")[::-1]

    def negative(self, negative_id: str) -> WholeNegative:
        return self.get(f"/negatives/{_part(negative_id)}", WholeNegative)

    def search(self, query: str, *, kinds: Sequence[str], project: str | None) -> tuple[Hit, ...]:
        """By words and by meaning, the best first, of everything that is text."""
        wish = {"q": query, "kind": list(kinds), "project_id": project, "limit": 30}
        return self.get("/search", tuple[Hit, ...], wish, key="hits")

    def add_negative(self, *, evidence: Sequence[str], **fields: str) -> None:
        """Store a negative result; refused without evidence."""
        self.send("POST", "/negatives", json={**fields, "evidence": list(evidence)})

    def approve(self, proposal_id: str, *, comment: str, bound_hash: str) -> None:
        self._decide(proposal_id, "approve", comment, bound_hash)

    def reject(self, proposal_id: str, *, comment: str, bound_hash: str) -> None:
        self._decide(proposal_id, "reject", comment, bound_hash)

    def ask_changes(self, proposal_id: str, *, comment: str, bound_hash: str) -> None:
        self._decide(proposal_id, "ask-changes", comment, bound_hash)

    def edit(self, proposal_id: str, changes: Mapping[str, object], *, comment: str, bound_hash: str) -> Proposal:
        """The new proposal that takes the place of this one and waits for its own approval."""
        path = f"/proposals/{_part(proposal_id)}/edit"
        body = {"comment": comment, "bound_hash": bound_hash, "changes": dict(changes)}
        return read(Proposal, self.send("POST", path, json=body), path, key="proposal")

    def _decide(self, proposal_id: str, verb: str, comment: str, bound_hash: str) -> None:
        body = {"comment": comment, "bound_hash": bound_hash}
        self.send("POST", f"/proposals/{_part(proposal_id)}/{verb}", json=body)

    def threads(self) -> tuple[Thread, ...]:
        """Newest first."""
        return self.get("/chat/threads", tuple[Thread, ...], key="threads")

    def thread(self, thread_id: str) -> WholeThread:
        return self.get(f"/chat/threads/{_part(thread_id)}", WholeThread)

    def open_thread(self, *, title: str, run_id: str = "", investigation_id: str = "") -> Thread:
        body = {"title": title, "run_id": run_id, "investigation_id": investigation_id}
        return read(Thread, self.send("POST", "/chat/threads", json=body), "/chat/threads", key="thread")

    def delete_thread(self, thread_id: str) -> None:
        self.send("DELETE", f"/chat/threads/{_part(thread_id)}")

    def ask(self, thread_id: str, question: str) -> Iterator[Piece]:
        """The pieces of an answer: ("draft", words), ("restart", "") when the draft is void, and at last
        ("answer", the checked answer) or ("stopped", ""). Whoever stops reading stops the answer.
        """
        path = f"/chat/threads/{_part(thread_id)}/exchanges"
        with self.stream(path, {"question": question}, timeout_s=_ANSWER_S) as found:
            for event, data in found:
                yield event, _piece(event, data, path)

    def stop(self, thread_id: str) -> None:
        self.send("POST", f"/chat/threads/{_part(thread_id)}/stop")

    def providers(self) -> Flows:
        """Which text goes to which provider of models."""
        return self.get("/chat/providers", Flows)

    def budgets(self) -> tuple[Budget, ...]:
        return self.all("/budgets", Budget, key="budgets")

    def policies(self) -> Policies:
        return self.get("/policies", Policies)

    def halt(self, reason: str) -> None:
        self.send("POST", "/policies/halt", json={"reason": reason})

    def resume(self, reason: str) -> None:
        self.send("POST", "/policies/resume", json={"reason": reason})

    def set_autonomy(self, wish: Autonomy, reason: str) -> None:
        self.send("POST", "/policies/autonomy", json={**wish.model_dump(), "reason": reason})

    def revoke_policy(self, policy_id: int, reason: str) -> None:
        self.send("POST", f"/policies/{policy_id}/revoke", json={"reason": reason})

    def schedules(self) -> tuple[Schedule, ...]:
        return self.get("/schedules", tuple[Schedule, ...], {"in_force": True}, key="schedules")

    def set_schedule(self, action: str, target: str, every_s: float, reason: str, older_than_s: float = 0.0) -> None:
        body = {"action": action, "target": target, "every_s": every_s, "reason": reason, "older_than_s": older_than_s}
        self.send("POST", "/schedules", json=body)

    def revoke_schedule(self, schedule_id: int, reason: str) -> None:
        self.send("POST", f"/schedules/{schedule_id}/revoke", json={"reason": reason})

    def tokens(self) -> tuple[Token, ...]:
        return self.get("/tokens", tuple[Token, ...], key="tokens")

    def make_token(self, name: str, role: str, expires_in_s: float | None) -> MadeToken:
        """The secret cannot be read again."""
        body = {"name": name, "role": role, "expires_in_s": expires_in_s}
        return read(MadeToken, self.send("POST", "/tokens", json=body), "/tokens")

    def revoke_token(self, token_id: int) -> None:
        self.send("POST", f"/tokens/{token_id}/revoke")


def _piece(event: str, data: str, path: str) -> str | Answer:
    """Raises ApiError for an answer that failed."""
    fields = json.loads(data)
    if event == "error":
        raise ApiError(str(fields["detail"]), remedy=str(fields["remedy"]))
    return read(Answer, fields, path) if event == "answer" else str(fields.get("text", ""))


def _part(text: str) -> str:
    return quote(text, safe="")
