"""The rounds of a run: propose, test in pairs, keep or revert, remember. One `step` is one piece of work.

What a piece gives is written to the journal before anything follows from it; a piece that a crash interrupted begins
again with the same inputs and gives the same, so a run that was killed at any moment takes the same decisions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from contracts.errors import NotPermitted
from loops.evolve import operators
from loops.evolve.acceptance import Standing, detectable
from loops.evolve.archive import Archive
from loops.evolve.evaluation import Job, Outcome, Runs
from loops.evolve.failures import Finding, analysed, trace_id
from loops.evolve.ideas import key_of, parts_of
from loops.evolve.journal import Body, Journal
from loops.evolve.parents import Search, choose
from loops.evolve.plan import CONTROL, PLACEBO, History, Plan, pinned
from loops.evolve.proposer import Draft, Proposer, Situation, lessons_of
from loops.evolve.surface import Files, Surface, params_of
from loops.evolve.tasks import Split, Suite

Notice = Callable[[str], None]


class Evolution:
    """One run. `folder` is for checked-out commits; `tell` hears a sentence a piece."""

    def __init__(
        self, plan: Plan, journal: Journal, archive: Archive, evaluator: Runs, *,
        folder: Path, proposer: Proposer, surface: Surface | None = None, tell: Notice = lambda text: None,
        workers: int = 1,
    ) -> None:  # fmt: skip
        pinned(journal, plan)
        self._plan, self._journal, self._archive, self._evaluator = plan, journal, archive, evaluator
        self._folder, self._proposer, self._tell, self._workers = folder, proposer, tell, workers
        self._surface = surface or Surface()
        if evaluator.suite.hash != plan.suite_hash:
            raise NotPermitted(
                "the tasks or the evaluator have changed since the run began", remedy="begin another run"
            )
        folder.mkdir(parents=True, exist_ok=True)
        journal.put("root", "0", {"commit": archive.incumbent})
        self.history = History(journal=journal, plan=plan)
        archive.keep(self.history.incumbent)  # a crash may have come between a decision and its ref

    @property
    def suite(self) -> Suite:
        return self._evaluator.suite

    def step(self) -> bool:
        """The next piece of work; False when the run is over."""
        history, number = self.history, self.history.number
        if number > self._plan.rule.rounds or history.episodes >= self._plan.max_episodes:
            return False
        proposal = self._journal.get("proposal", str(number))
        if proposal is None:
            self._propose(number)
            return True
        if not proposal["commit"]:
            self._decide(number, proposal, "nothing new to try")
            return True
        for commit in (proposal["base"], proposal["commit"]):
            if history.fix_score(commit) is None:
                self._findings(commit)
                return True
        if self._gain(proposal) < self._plan.screen - 1e-9:
            self._decide(number, proposal, f"screened out: {self._gain(proposal):+.3f} on the fix tasks")
        elif history.reading(number).standing is Standing.GOES_ON:
            self._test(number, proposal)
        else:
            self._decide(number, proposal, "")
        return True

    def _gain(self, proposal: Body) -> float:
        """On the fix tasks, over what the candidate is compared with."""
        base, candidate = (self.history.fix_score(proposal[name]) for name in ("base", "commit"))
        assert base is not None
        assert candidate is not None
        return candidate - base

    # --- propose ------------------------------------------------------------------------------------------------

    def _propose(self, number: int) -> None:
        history, plan = self.history, self._plan
        parent = choose(plan.search, history.nodes, history.incumbent, plan.chance("parent", number))
        findings = self._findings(history.root if plan.frozen_proposer else parent)
        files = self._archive.files(parent)
        settings = operators.proposer_of(self._archive.files(history.root) if plan.frozen_proposer else files)
        chance = plan.chance("proposal", number)
        if plan.search is Search.BEST_OF_N:  # it never builds on what it found, so it may try much at once
            settings = {**settings, "bundle": chance.randint(1, 6)}
        situation = Situation(
            number=number, files=files, findings=findings, settings=settings, lessons=lessons_of(history.decisions),
            chance=chance,
        )  # fmt: skip
        refusals: Counter[str] = Counter()
        draft = self._drafted(situation, parent, refusals)
        body: Body = {"round": number, "parent": parent, "commit": "", "moves": [], "refusals": dict(refusals)}
        if draft is not None:
            body |= self._committed(number, parent, draft)
        self._journal.put("proposal", str(number), body)
        self._tell(f"round {number}: {body.get('hypothesis', 'nothing new to try')}")

    def _drafted(self, situation: Situation, parent: str, refusals: Counter[str]) -> Draft | None:
        """The blind kinds of rounds, or what the proposer offers; checked against the surface and earlier failures."""
        kind = self._plan.kind(situation.number)
        if kind == PLACEBO:
            files = operators.placebo(situation.files, situation.number)
            return Draft(files=files, moves=("set prompt",), hypothesis="a change of the prompt", critique=())
        if kind == CONTROL:
            return Draft(files=situation.files, moves=("mechanisms",), hypothesis="mechanisms", critique=())
        tree = self._archive.tree_of(parent)

        def fresh(files: Files) -> bool:
            parts = _parts(situation.files, files)
            before = self.history.failed_before(parts, tree)
            refusals["no change" if not parts else "failed before"] += bool(before or not parts)
            if before or not parts:
                return False
            try:
                self._surface.check(situation.files, files, self.suite.secrets)
            except NotPermitted as error:
                refusals[error.message] += 1
                return False
            return True

        draft = self._proposer.propose(situation, fresh)
        if draft is None or self._plan.frozen_proposer or situation.chance.random() > 0.3:
            return draft
        settings = operators.mutated_proposer(situation.settings, situation.chance)
        files = {**draft.files, "proposer.json": json.dumps(settings) + "\n"}
        return Draft(**{**vars(draft), "files": files})

    def _committed(self, number: int, parent: str, draft: Draft) -> Body:
        base, files = parent, draft.files
        if self._plan.kind(number) == CONTROL:  # the incumbent against itself without its mechanisms
            base = self._archive.commit(
                _without_mechanisms(files), parent=parent, number=number, message="A control's base", place="controls"
            )
        parts = sorted(_parts(self._archive.files(parent), files))
        critique = [asdict(finding) for finding in draft.critique]
        text = json.dumps({"hypothesis": draft.hypothesis, "critique": critique, "prompt": draft.prompt}, indent=1)
        commit = self._archive.commit(files, parent=parent, number=number, message=f"Round {number}\n\n{text}")
        incumbent = self.history.incumbent
        return {
            "commit": commit,
            "base": base if self._plan.kind(number) == CONTROL else incumbent,
            "base_tree": self._archive.tree_of(parent),
            "moves": list(draft.moves),
            "hypothesis": draft.hypothesis,
            "critique": critique,
            "parts": parts,
            "idea": key_of(parts),
            "diff": self._archive.diff(parent, commit)[:8000],
            "proposer": self._proposer.name,
            "settings_of": self.history.root if self._plan.frozen_proposer else parent,
        }

    def _findings(self, commit: str) -> list[Finding]:
        body = self._journal.get("fix", commit)
        if body is None:
            outcomes = self._run(commit, self._plan.fix_jobs(self.suite), traced=True)
            body = {
                "scores": [outcome.score for outcome in outcomes],
                "traces": [trace_id(commit, outcome) for outcome in outcomes],
                "findings": [asdict(finding) for finding in analysed(commit, outcomes)],
                "canaries": _canaries(outcomes),
                "failed": [_shown(commit, outcome) for outcome in outcomes if outcome.score < 1.0][:8],
            }
            self._journal.put("fix", commit, body)
        return [Finding(**{**each, "traces": tuple(each["traces"])}) for each in body["findings"]]

    # --- test and decide ----------------------------------------------------------------------------------------

    def _test(self, number: int, proposal: Body) -> None:
        block = self.history.num_blocks(number)
        jobs = self._plan.pairs(self.suite, number, block)
        arms = (proposal["base"], proposal["commit"])
        with ThreadPoolExecutor(self._workers) as pool:
            base, candidate = pool.map(lambda commit: self._run(commit, jobs), arms)
        body = {
            "jobs": [[job.task, job.seed] for job in jobs],
            "base": [outcome.score for outcome in base],
            "candidate": [outcome.score for outcome in candidate],
            "asks": [sum(o.asks for o in base), sum(o.asks for o in candidate)],
            "chars": [sum(o.chars for o in base), sum(o.chars for o in candidate)],
            "canaries": _canaries(candidate),
        }
        self._journal.put("block", f"{number}/{block}", body)

    def _decide(self, number: int, proposal: Body, why: str) -> None:
        history = self.history
        alpha, reading = history.budget.share, history.reading(number)
        hits = self._hits(number, proposal) if proposal["commit"] else {}
        kept = reading.standing is Standing.ACCEPTED and not hits and self._plan.kind(number) != CONTROL
        differing = [d for d in history.differences(number)[: reading.num_pairs] if d]
        share = len(differing) / max(1, reading.num_pairs)
        body = {
            "round": number, "candidate": proposal["commit"], "base": proposal.get("base", ""), "kept": kept,
            "standing": str(reading.standing), "why": why or ("a canary was hit" if hits else str(reading.standing)),
            "num_pairs": reading.num_pairs, "mean": reading.mean, "wealth": reading.wealth, "doubt": reading.doubt,
            "alpha": alpha, "discordant": share, "canaries": hits, "moves": proposal["moves"],
            "detectable": detectable(reading.num_pairs, alpha, max(share, 0.05)) if reading.num_pairs else 1.0,
        }  # fmt: skip
        self._journal.put("decision", str(number), body)
        self._remember(number, proposal, body)

    def _remember(self, number: int, proposal: Body, body: Body) -> None:
        if proposal["commit"]:
            self._archive.verdict(proposal["commit"], number, json.dumps(body, sort_keys=True, indent=1))
        self._archive.keep(self.history.incumbent)
        lessons = lessons_of(self.history.decisions)
        findings = proposal.get("critique", [])
        directions = [f"{each['sentence']} ({', '.join(each['traces'][:3])})" for each in findings]
        self._journal.put("memory", str(number), {"lessons": lessons, "directions": directions})
        word = "kept" if body["kept"] else "not kept"
        self._tell(f"round {number} {word}: {body['why']}, {body['mean']:+.3f} over {body['num_pairs']} pairs")

    def _hits(self, number: int, proposal: Body) -> dict[str, int]:
        """Canaries of the candidate in this round; for one that would be kept, also tasks whose labels say nothing."""
        found: Counter[str] = Counter()
        for key, body in self._journal.list("block"):
            if key.startswith(f"{number}/"):
                found.update(body["canaries"])
        if self.history.reading(number).standing is Standing.ACCEPTED:
            found["scrambled"] += self._passed_scrambled(number, proposal["commit"])
        return {name: count for name, count in found.items() if count}

    def _passed_scrambled(self, number: int, commit: str) -> int:
        known = self._journal.get("canary", str(number))
        if known is None:
            jobs = [Job(task=task, seed=number) for task in self.suite.of(Split.CANARY)]
            known = {"passed": sum(outcome.score > 0 for outcome in self._run(commit, jobs))}
            self._journal.put("canary", str(number), known)
        return int(known["passed"])

    def _run(self, commit: str, jobs: Sequence[Job], *, traced: bool = False) -> list[Outcome]:
        return self._evaluator.run(self._archive.export(commit, self._folder), jobs, traced=traced)

    # --- the seal -----------------------------------------------------------------------------------------------

    def open_seal(self, opened_by: str, seeds: int = 5) -> Body:
        """Both ends of the line on the sealed tasks, once: what was measured first is what there is.

        Raises NotPermitted while the run goes on.
        """
        if (known := self._journal.get("sealed", "0")) is not None:
            return known
        if self.history.number <= self._plan.rule.rounds and self.history.episodes < self._plan.max_episodes:
            raise NotPermitted("the run goes on: its sealed tasks stay sealed", remedy="finish the run first")
        tasks = self.suite.of(Split.SEALED)
        chance = self._plan.chance("sealed")
        jobs = [Job(task=task, seed=chance.getrandbits(48)) for _ in range(seeds) for task in tasks]
        first, last = (
            [outcome.score for outcome in self._run(commit, jobs)]
            for commit in (self.history.root, self.history.incumbent)
        )
        body: dict[str, Any] = {
            "opened_by": opened_by, "tasks": list(tasks), "seeds": seeds, "root": first, "incumbent": last,
            "commits": [self.history.root, self.history.incumbent],
        }  # fmt: skip
        self._journal.put("sealed", "0", body)
        return body


def _parts(before: Files, after: Files) -> frozenset[str]:
    """The idea of a diff. How a scaffold proposes is no part of it: it travels with the idea."""
    drop = {"proposer.json"}
    return parts_of(
        {name: text for name, text in before.items() if name not in drop},
        {name: text for name, text in after.items() if name not in drop},
    )


def _without_mechanisms(files: Files) -> dict[str, str]:
    params = params_of(files) | {"mechanisms": ["cut"] if "mechanisms/cut.py" in files else []}
    return {**files, "params.json": json.dumps(params, indent=2) + "\n"}


def _canaries(outcomes: Sequence[Outcome]) -> dict[str, int]:
    return dict(Counter(name for outcome in outcomes for name in outcome.canaries))


def _shown(commit: str, outcome: Outcome) -> Body:
    """A failed episode for people: its last steps."""
    return {"trace": trace_id(commit, outcome), "why": outcome.why, "ended": outcome.ended, "steps": outcome.trace[-6:]}
