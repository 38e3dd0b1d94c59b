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

from contracts.errors import NotPermitted, UserInputError
from loops.evolve import operators
from loops.evolve.acceptance import Standing, detectable
from loops.evolve.archive import Archive
from loops.evolve.control import control
from loops.evolve.declared import surface_of
from loops.evolve.evaluation import Job, Outcome, Runs
from loops.evolve.failures import Finding, analysed, trace_id
from loops.evolve.ideas import key_of, parts_of
from loops.evolve.journal import Body, Journal
from loops.evolve.parents import Search, choose
from loops.evolve.plan import CONTROL, IDEA, PLACEBO, History, Plan, pinned
from loops.evolve.proposer import Draft, Proposer, Situation, lessons_of
from loops.evolve.surface import Files, Surface
from loops.evolve.tasks import Split, Suite

_DIFF_CHARS = 8000
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
        if evaluator.suite.hash != plan.suite_hash:
            raise NotPermitted(
                "the tasks or the evaluator have changed since the run began", remedy="begin another run"
            )
        self.suite.check()
        least = len(plan.fix_jobs(self.suite))
        if least > plan.max_episodes:
            raise UserInputError(
                f"{plan.max_episodes} episodes do not even run the fix tasks once", remedy=f"allow {least} and more"
            )
        journal.put("price", "0", {"episodes": plan.piece(self.suite)})
        folder.mkdir(parents=True, exist_ok=True)
        journal.put("root", "0", {"commit": archive.incumbent})
        self.history = History(journal=journal, plan=plan)
        self._surface = surface or surface_of(archive.files(self.history.root))
        archive.keep(self.history.incumbent)  # a crash may have come between a decision and its ref

    @property
    def suite(self) -> Suite:
        return self._evaluator.suite

    def step(self) -> bool:
        """The next piece of work; False when the run is over."""
        history, number = self.history, self.history.number
        if history.over:
            return False
        proposal = self._journal.get("proposal", str(number))
        if proposal is None:
            self._propose(number)
        elif (why := history.ready(number)) is not None:
            self._decide(number, proposal, why)
        else:
            unknown = [each for each in (proposal["base"], proposal["commit"]) if history.fix_score(each) is None]
            if unknown and self._plan.kind(number) == IDEA:
                self._findings(unknown[0])
            else:
                self._test(number, proposal)
        return True

    # --- propose ------------------------------------------------------------------------------------------------

    def _propose(self, number: int) -> None:
        """Placebo and control are made from the incumbent; who proposes is not asked for them."""
        history, kind = self.history, self._plan.kind(number)
        body: Body = {"round": number, "parent": history.incumbent, "commit": "", "moves": [], "refusals": {}}
        if kind == CONTROL:
            body |= self._control(number)
        elif kind == PLACEBO:
            files = operators.placebo(self._archive.files(history.incumbent), number)
            draft = Draft(files=files, moves=("set prompt",), hypothesis="a change of the prompt", critique=())
            body |= self._committed(number, history.incumbent, draft)
        else:
            chance = self._plan.chance("parent", number)
            body["parent"] = choose(self._plan.search, history.nodes, history.incumbent, chance)
            refusals: Counter[str] = Counter()
            idea = self._drafted(self._situation(number, body["parent"]), body["parent"], refusals)
            body |= {"refusals": dict(refusals)}
            body |= {} if idea is None else self._committed(number, body["parent"], idea)
        self._journal.put("proposal", str(number), body)
        self._tell(f"round {number}: {body.get('hypothesis', 'nothing new to try')}")

    def _situation(self, number: int, parent: str) -> Situation:
        history, plan = self.history, self._plan
        findings = self._findings(history.root if plan.frozen_proposer else parent)
        files = self._archive.files(parent)
        settings = operators.proposer_of(self._archive.files(history.root) if plan.frozen_proposer else files)
        chance = plan.chance("proposal", number)
        if plan.search is Search.BEST_OF_N:  # it never builds on what it found, so it may try much at once
            settings = {**settings, "bundle": chance.randint(1, 6)}
        lessons = lessons_of([body for body in history.decisions if history.kind(body) != CONTROL])
        return Situation(
            number=number, files=files, findings=findings, settings=settings, lessons=lessons, chance=chance
        )

    def _drafted(self, situation: Situation, parent: str, refusals: Counter[str]) -> Draft | None:
        """What the proposer offers; checked against the surface and earlier failures."""
        tree = self._archive.tree_of(parent)

        def fresh(files: Files) -> bool:
            try:
                self._surface.check(situation.files, files, self.suite.secrets)
                parts = _parts(situation.files, files)
            except (NotPermitted, RecursionError) as error:
                refusals[error.message if isinstance(error, NotPermitted) else "it is nested too deep"] += 1
                return False
            before = self.history.failed_before(parts, tree)
            refusals["no change" if not parts else "failed before"] += bool(before or not parts)
            return bool(parts) and not before

        draft = self._proposer.propose(situation, fresh)
        if draft is None or self._plan.frozen_proposer or situation.chance.random() > 0.3:
            return draft
        if not self._surface.covers("proposer.json"):
            return draft
        settings = operators.mutated_proposer(situation.settings, situation.chance)
        files = {**draft.files, "proposer.json": json.dumps(settings) + "\n"}
        return Draft(**{**vars(draft), "files": files})

    def _control(self, number: int) -> Body:
        """A fixed edit of a fixed base, whatever the run's own scaffold is: a test that misses it would miss others."""
        base, after = control()
        archive, parent = self._archive, self.history.incumbent
        commit = archive.commit(base, parent=parent, number=number, message="A control's base", place="controls")
        edited = archive.commit(after, parent=commit, number=number, message=f"Round {number}: a control")
        return {
            "commit": edited, "base": commit, "base_tree": archive.tree_of(commit), "moves": ["known to help"],
            "hypothesis": "two tools are offered", "critique": [], "parts": [], "idea": "", "proposer": "control",
            "diff": archive.diff(commit, edited), "settings_of": parent,
        }  # fmt: skip

    def _committed(self, number: int, parent: str, draft: Draft) -> Body:
        files = draft.files
        parts = sorted(_parts(self._archive.files(parent), files))
        critique = [asdict(finding) for finding in draft.critique]
        said: Body = {"hypothesis": draft.hypothesis, "critique": critique, "proposer": draft.proposer}
        if draft.prompt:
            said["prompt"] = self._archive.attach(draft.prompt, number)
        text = f"Round {number}\n\n{json.dumps(said, indent=1)}"
        commit = self._archive.commit(files, parent=parent, number=number, message=text)
        return {
            "commit": commit,
            "base": self.history.incumbent,
            "base_tree": self._archive.tree_of(parent),
            "moves": list(draft.moves),
            "hypothesis": draft.hypothesis,
            "critique": critique,
            "parts": parts,
            "idea": key_of(parts),
            "diff": _shortened(self._archive.diff(parent, commit), commit),
            "proposer": draft.proposer,
            "settings_of": self.history.root if self._plan.frozen_proposer else parent,
        }

    def _findings(self, commit: str) -> list[Finding]:
        body = self._journal.get("fix", commit)
        if body is None:
            outcomes = self._run(commit, self._plan.fix_jobs(self.suite), traced=True)
            body = {
                "scores": [outcome.score for outcome in outcomes],
                "traces": [trace_id(commit, outcome.job) for outcome in outcomes],
                "findings": [asdict(finding) for finding in analysed(commit, outcomes)],
                "canaries": _canaries(outcomes),
                "again": sum(outcome.again for outcome in outcomes),
                "asks": sum(outcome.asks for outcome in outcomes),
                "chars": sum(outcome.chars for outcome in outcomes),
                "failed": [_shown(commit, outcome) for outcome in outcomes if outcome.score < 1.0][:8],
            }
            self._journal.put("fix", commit, body)
        return [Finding(**{**each, "traces": tuple(each["traces"])}) for each in body["findings"]]

    # --- test and decide ----------------------------------------------------------------------------------------

    def _test(self, number: int, proposal: Body) -> None:
        block = self.history.num_blocks(number)
        jobs = self._plan.pairs(self.suite, number, block)
        others = self._plan.candidate_jobs(jobs, self._plan.kind(number))
        with ThreadPoolExecutor(self._workers) as pool:
            base, candidate = pool.map(self._run, (proposal["base"], proposal["commit"]), (jobs, others))
        body = {
            "jobs": [[job.task, job.seed] for job in jobs],
            "candidate_jobs": [[job.task, job.seed] for job in others] if others != jobs else [],
            "base": [outcome.score for outcome in base],
            "candidate": [outcome.score for outcome in candidate],
            "again": sum(outcome.again for outcome in (*base, *candidate)),
            "asks": [sum(o.asks for o in base), sum(o.asks for o in candidate)],
            "chars": [sum(o.chars for o in base), sum(o.chars for o in candidate)],
            "canaries": _canaries(candidate),
            "base_canaries": _canaries(base),
        }
        self._journal.put("block", f"{number}/{block}", body)

    def _decide(self, number: int, proposal: Body, why: str) -> None:
        history = self.history
        alpha, reading = history.budget.share, history.reading(number)
        hits = self._hits(number, proposal) if proposal["commit"] else {}
        kind = self._plan.kind(number)
        kept = reading.standing is Standing.ACCEPTED and not hits and kind != CONTROL
        differing = [d for d in history.differences(number)[: reading.num_pairs] if d]
        share = len(differing) / max(1, reading.num_pairs)
        body = {
            "round": number, "candidate": proposal["commit"], "base": proposal.get("base", ""), "kept": kept,
            "kind": kind, "standing": str(reading.standing), "why": "a canary was hit" if hits else why,
            "num_pairs": reading.num_pairs, "mean": reading.mean, "wealth": reading.wealth, "doubt": reading.doubt,
            "alpha": alpha, "discordant": share, "canaries": hits, "moves": proposal["moves"],
            "detectable": detectable(reading.num_pairs, alpha, max(share, 0.05)) if reading.num_pairs else 1.0,
        }  # fmt: skip
        self._journal.put("decision", str(number), body)
        self._remember(number, proposal, body)

    def _remember(self, number: int, proposal: Body, body: Body) -> None:
        if proposal["commit"]:
            evidence = {**body, **self._cost(number, proposal)}
            self._archive.verdict(proposal["commit"], number, json.dumps(evidence, sort_keys=True, indent=1))
        self._archive.keep(self.history.incumbent)
        lessons = lessons_of(self.history.decisions)
        findings = proposal.get("critique", [])
        directions = [f"{each['sentence']} ({', '.join(each['traces'][:3])})" for each in findings]
        self._journal.put("memory", str(number), {"lessons": lessons, "directions": directions})
        word = "kept" if body["kept"] else "not kept"
        self._tell(f"round {number} {word}: {body['why']}, {body['mean']:+.3f} over {body['num_pairs']} pairs")

    def _cost(self, number: int, proposal: Body) -> Body:
        """With which seeds a round was measured, and what that took; [base, candidate] where there are two."""
        blocks = [body for key, body in self._journal.list("block") if key.startswith(f"{number}/")]
        fix = self._journal.get("fix", proposal["commit"])
        return {
            "pairs": [pair for body in blocks for pair in body["jobs"]],
            "pairs_of_the_candidate": [pair for body in blocks for pair in body.get("candidate_jobs", [])],
            "fix_seeds": [] if fix is None else [[job.task, job.seed] for job in self._plan.fix_jobs(self.suite)],
            "asks": [sum(body["asks"][arm] for body in blocks) for arm in (0, 1)],
            "chars": [sum(body["chars"][arm] for body in blocks) for arm in (0, 1)],
            "fix_asks": 0 if fix is None else fix.get("asks", 0),
            "fix_chars": 0 if fix is None else fix.get("chars", 0),
        }

    def _hits(self, number: int, proposal: Body) -> dict[str, int]:
        """Canaries of the candidate in this round; for one that would be kept, also tasks whose labels say nothing."""
        found: Counter[str] = Counter((self._journal.get("fix", proposal["commit"]) or {}).get("canaries", {}))
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
            outcomes = self._run(commit, jobs)
            known = {
                "jobs": [[job.task, job.seed] for job in jobs],
                "passed": sum(outcome.score > 0 for outcome in outcomes), "episodes": len(outcomes),
                "again": sum(outcome.again for outcome in outcomes),
            }  # fmt: skip
            self._journal.put("canary", str(number), known)
        return int(known["passed"])

    def _run(self, commit: str, jobs: Sequence[Job], *, traced: bool = False) -> list[Outcome]:
        """NotPermitted, and nothing is noted, when the evaluator is another one meanwhile: it is mounted as it lies."""
        outcomes = self._evaluator.run(self._archive.export(commit, self._folder), jobs, traced=traced)
        if not self.suite.unchanged:
            raise NotPermitted(
                "the tasks or the evaluator were changed while they were in use",
                remedy="put them back as they were and go on, or begin another run",
            )
        return outcomes

    # --- the seal -----------------------------------------------------------------------------------------------

    def open_seal(self, opened_by: str, seeds: int = 5) -> Body:
        """Both ends of the line on the sealed tasks, once: what was measured first is what there is.

        Raises NotPermitted while the run goes on.
        """
        if (known := self._journal.get("sealed", "0")) is not None:
            return known
        if not self.history.over:
            raise NotPermitted("the run goes on: its sealed tasks stay sealed", remedy="finish the run first")
        tasks = self.suite.of(Split.SEALED)
        jobs = self._plan.sealed_jobs(self.suite, seeds)
        ends = [self.history.root, self.history.incumbent]
        ran = {commit: self._run(commit, jobs) for commit in dict.fromkeys(ends)}
        first, last = ([outcome.score for outcome in ran[commit]] for commit in ends)
        body: dict[str, Any] = {
            "opened_by": opened_by, "tasks": list(tasks), "seeds": seeds, "root": first, "incumbent": last,
            "commits": ends, "canaries": _canaries(ran[ends[1]]),
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


def _shortened(diff: str, commit: str) -> str:
    """For pages; the archive has the whole."""
    left = len(diff) - _DIFF_CHARS
    return diff if left <= 0 else f"{diff[:_DIFF_CHARS]}\n[{left} more letters: git show {commit}]\n"


def _canaries(outcomes: Sequence[Outcome]) -> dict[str, int]:
    return dict(Counter(name for outcome in outcomes for name in outcome.canaries))


def _shown(commit: str, outcome: Outcome) -> Body:
    """A failed episode for people: its last steps."""
    return {
        "trace": trace_id(commit, outcome.job),
        "why": outcome.why,
        "ended": outcome.ended,
        "steps": outcome.trace[-6:],
    }
