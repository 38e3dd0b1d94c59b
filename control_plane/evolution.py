"""Evolution runs as people ask for them: begin, fork, propose a promotion, propose to open the sealed tasks."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from context_store import Store
from context_store.records import Amount, Principal, Project, Proposal
from contracts.enums import EffectKind, EffectState, ProposalState
from contracts.errors import NotFound, UserInputError
from contracts.evidence import EvidenceRef
from control_plane.chat import mind_of
from control_plane.effects.open_seal import seal_of
from control_plane.git import Git, head_commit
from control_plane.projects import EMBEDDED, project_id
from control_plane.proposing import Wish, propose
from control_plane.wiring import Lathe
from loops.evolve import loop
from loops.evolve.archive import Archive, read_files
from loops.evolve.board import planted
from loops.evolve.declared import declared, surface_of
from loops.evolve.journal import CaseJournal
from loops.evolve.loop import Asked, asked_of, history_of, scaffold_name, seals_of
from loops.evolve.plan import CONTROL, History
from loops.evolve.report import evidence_of, summary
from loops.evolve.tasks import STARTER, read_suite

OURS = Path(loop.__file__).parent / "scaffolds"
_FORKED = ("root", "fix", "proposal", "block", "canary", "decision", "memory")


@dataclass(frozen=True, kw_only=True)
class NewRun:
    """`scaffold`: a folder under git, or the name of one of ours. `fork`: (case, round) to go on from, if any."""

    scaffold: str
    asked: Asked
    fork: tuple[str, int] | None = None


def begin(lathe: Lathe, new: NewRun, at: float) -> str:
    """The id of the case, which a worker drives from now on; the same wish is the same case.

    Raises UserInputError for a scaffold that is none, or declares a surface that is none; RepositoryError for one with
    uncommitted changes.
    """
    folder = _folder(new.scaffold, lathe.settings.home / "scaffolds")
    commit = head_commit(folder, allow_uncommitted=False)
    if folder != Path(new.scaffold).expanduser().resolve():  # one of ours: as it is in use
        commit = Archive(folder, "").stands_at(f"refs/lathe/scaffold/{scaffold_name(str(folder))}") or commit
    suite = read_suite(Path(new.asked.suite) if new.asked.suite else STARTER)
    suite.check()
    fork = "" if new.fork is None else f"{new.fork[0]}@{new.fork[1]}"
    files = Archive(folder, "").files(commit)
    surface_of(files)
    own: dict[str, Any] = {"suite_hash": suite.hash, "fork": fork, "control": declared(files) is None}
    own["fix_seed"] = None if new.fork is None else _fix_seed(lathe.store, new.fork[0])
    asked = Asked(**{**vars(new.asked), **own})
    if new.fork is not None:
        _check_fork(lathe.store, new.fork, asked, commit, project_id(folder))
    body = {**asdict(asked), "argv": list(asked.argv), "commit": commit}
    words = json.dumps([body, new.fork], sort_keys=True)
    case_id = f"evolve-{scaffold_name(str(folder))}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"
    store = lathe.store
    project = Project(id=project_id(folder), path=str(folder), entry="graph:build", backend=EMBEDDED, owner="")
    store.projects.put(project)
    store.knowledge.open_case(case_id, project_id=project.id, loop=loop.NAME, title=f"evolve {folder.name}", at=at)
    store.casework.put(case_id, "asked", "0", body, at)
    store.casework.put(case_id, "planted", "0", planted(suite), at)
    store.budgets.open_share(case_id, _amount(lathe, asked), store.budgets.of_project(project.id))
    if not store.casework.list(case_id, "begun"):  # a run that goes on is not told what was tried elsewhere meanwhile
        _bar_failures(store, case_id, suite.hash, at)
        if new.fork is not None:
            _copy(store, new.fork, case_id, at)
        store.casework.put(case_id, "root", "0", {"commit": commit}, at)  # of a fork: there already
        store.casework.put(case_id, "begun", "0", {}, at)
    return case_id


def _fix_seed(store: Store, source: str) -> int:
    """What the run's fix results were drawn from: a fork compares new ones with them in pairs."""
    asked = asked_of(store, source)
    return asked.seed if asked.fix_seed is None else asked.fix_seed


def _amount(lathe: Lathe, asked: Asked) -> Amount:
    """With what a case's agents may spend on a language model, if it is to propose. UserInputError without one."""
    if not asked.model:
        return asked.amount
    mind = mind_of(lathe)
    if not mind.models:
        raise UserInputError("no language model is set", remedy="set LATHE_MODEL, or leave out --model")
    return replace(asked.amount, tokens=mind.budget.tokens, usd=mind.budget.usd)


def _bar_failures(store: Store, case_id: str, suite_hash: str, at: float) -> None:
    """What earlier runs on the same tasks tried on a scaffold and did not keep is not tried again on it.

    Placebos and controls have no parts and bar nothing. What failed on another scaffold may be tried: that is the new
    reason.
    """
    of_suite = {
        work.case_id
        for work in store.casework.of_loop(loop.NAME, "asked")
        if work.body["suite_hash"] == suite_hash and work.case_id != case_id
    }
    failed = {
        (work.case_id, work.key) for work in store.casework.of_loop(loop.NAME, "decision") if not work.body["kept"]
    }
    for work in store.casework.of_loop(loop.NAME, "proposal"):
        if work.case_id in of_suite and (work.case_id, work.key) in failed and work.body.get("parts"):
            body = {"parts": work.body["parts"], "base_tree": work.body["base_tree"]}
            store.casework.put(case_id, "barred", f"{work.case_id}:{work.key}", body, at)
    project = store.knowledge.investigation(case_id).project_id
    for result in store.negatives.list():
        of_person = result.project_id == project and not result.actor.startswith("loop:")
        if of_person and result.superseded_by is None:  # a later result with a new reason lets it through
            body = {"move": result.intervention, "reason": result.reason}
            store.casework.put(case_id, "barred_move", str(result.id), body, at)


def _check_fork(store: Store, fork: tuple[str, int], asked: Asked, commit: str, project: str) -> None:
    """Raises UserInputError for a round that is none, or a run whose pairs are not comparable with the new ones."""
    source, last = fork
    history, theirs = history_of(store, source), asked_of(store, source)
    if not 0 < last <= len(history.decisions):
        raise UserInputError(f"{source} has no round {last}", remedy=f"it has {len(history.decisions)}")
    begun = str(store.casework.get(source, "asked", "0").body["commit"])
    of_source = store.knowledge.investigation(source).project_id
    for what, same in (
        ("the scaffold", (begun, of_source) == (commit, project)),
        ("the tasks or the evaluator", theirs.suite_hash == asked.suite_hash),
        ("the command", theirs.argv == asked.argv),
        ("the size of a block (--max-pairs below 20)", history.plan.block == asked.plan("").block),
    ):
        if not same:
            raise UserInputError(f"{what} of {source} is another one", remedy="fork with the same, or begin anew")
    if last >= asked.rounds:
        raise UserInputError(f"{asked.rounds} rounds leave none after round {last}", remedy="ask for more rounds")
    if theirs.seed == asked.seed:
        raise UserInputError("a fork with the seed of its source repeats it", remedy="give another --seed")


def _copy(store: Store, fork: tuple[str, int], case_id: str, at: float) -> None:
    """What the other run wrote down up to that round; randomness goes on from this run's own seed."""
    source, last = fork
    history = history_of(store, source)
    journal = CaseJournal(store, case_id, lambda: at)
    sizes = [(int(key.split("/")[0]) <= last, len(body["base"])) for key, body in history.journal.list("block")]
    sealed = history.journal.get("sealed", "0") or {"opened_by": ""}
    fact = {
        "source": source, "round": last, "pairs": sum(size for before, size in sizes if before),
        "pairs_after": sum(size for before, size in sizes if not before), "sealed_by": sealed["opened_by"],
    }  # fmt: skip
    journal.put("fork", "0", fact)
    proposals = [body for key, body in history.journal.list("proposal") if int(key) <= last]
    known = {history.root, *(body[name] for body in proposals for name in ("base", "commit") if body.get(name))}
    fix = [commit for commit, _ in history.journal.list("fix") if commit in known]
    journal.put("fork_fix", "0", {"commits": fix})
    for kind in _FORKED:
        for key, body in history.journal.list(kind):
            if kind == "root" or (key in fix if kind == "fix" else int(key.split("/")[0]) <= last):
                journal.put(kind, key, body | {"kind": history.kind(body)} if kind == "decision" else body)


def _folder(scaffold: str, home: Path) -> Path:
    """The folder; one of ours is copied and put under git when it is used first."""
    ours = OURS / scaffold
    if "/" in scaffold or not ours.is_dir():
        folder = Path(scaffold).expanduser().resolve()
        if not (folder / ".git").exists():
            names = ", ".join(sorted(path.name for path in OURS.iterdir()))
            raise UserInputError(
                f"{scaffold} is no scaffold under git",
                remedy=f"give a folder with a git repository, or one of: {names}",
            )
        return folder
    folder = home / scaffold
    if not (folder / ".git").exists():
        for name, text in read_files(ours).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        git = Git(folder)
        git("init", "-q")
        git("add", "-A")
        who = ("-c", "user.name=Lathe", "-c", "user.email=lathe@localhost")
        git(*who, "commit", "-q", "-m", f"Scaffold {scaffold} as it comes with Lathe")
    return folder


def opening(store: Store, case_id: str, principal: Principal, at: float) -> Proposal:
    """A proposal to open the run's sealed tasks: one that was declined, or failed, may be made again.

    Raises NotPermitted while the run goes on and when they were opened before.
    """
    made = [each for each in store.proposals.list() if each.kind is EffectKind.OPEN_SEAL]
    own = [each for each in made if each.payload["case_id"] == case_id]
    seal = seal_of(store, case_id, trial=len(own) + 1)
    if own and not _ended(store, own[-1]):
        return own[-1]
    wish = Wish(
        kind=EffectKind.OPEN_SEAL,
        payload=seal.model_dump(),
        title=f"open the sealed tasks of {case_id} after {seal.rounds} rounds",
        risk="it is done once; what is chosen afterwards on the same tasks is no longer blind to them. "
        f"{seals_of(store, case_id)} runs on these tasks were opened before",
        verification="the report gives both ends of the run with an interval, also where it is a null",
        evidence=(EvidenceRef(kind="investigation", id=case_id),),
    )
    return propose(store, wish, principal, at)


def _ended(store: Store, proposal: Proposal) -> bool:
    """Nothing will come of it any more."""
    if proposal.state is not ProposalState.APPROVED:
        return proposal.state is not ProposalState.OPEN
    try:
        return store.effects.get(f"apply:{proposal.id}").state in (EffectState.FAILED, EffectState.REFUSED)
    except NotFound:
        return False


def promotion(store: Store, case_id: str, principal: Principal, at: float, commit: str = "") -> Proposal:
    """A proposal to use the run's incumbent, or another commit of its archive, with what is known of it.

    Raises UserInputError for what is no commit of it, or that of a control, which is no change of this scaffold.
    """
    history = history_of(store, case_id)
    project = store.projects.get(store.knowledge.investigation(case_id).project_id)
    archive = Archive(Path(project.path), case_id)
    found = {value for name, value in archive.refs().items() if name.startswith(("candidates/", "incumbent"))}
    fitting = [each for each in found if each.startswith(commit or history.incumbent)]
    if len(fitting) != 1:
        raise UserInputError(f"{commit} is no commit of {case_id}", remedy=f"lathe evolve report {case_id} lists them")
    candidate = fitting[0]
    _check_no_control(history, candidate)
    name = scaffold_name(project.path)
    payload = {
        "project_id": project.id,
        "name": name,
        "base": archive.stands_at(f"refs/lathe/scaffold/{name}"),
        "candidate": candidate,
    }
    wish = Wish(
        kind=EffectKind.PROMOTE_SCAFFOLD,
        payload=payload,
        title=f"use scaffold {name} at {candidate[:12]}",
        risk=f"{evidence_of(history, candidate)}. What it does better on the run's tasks it may do worse on others",
        verification="the ref stands at the candidate",
        evidence=(EvidenceRef(kind="investigation", id=case_id),),
    )
    return propose(store, wish, principal, at)


def _check_no_control(history: History, candidate: str) -> None:
    for number, body in history.journal.list("proposal"):
        kind = history.kind(history.journal.get("decision", number) or {"round": int(number)})
        if body["commit"] == candidate and kind == CONTROL:
            raise UserInputError(
                f"round {number} was a control: a fixed edit of another scaffold, not a change of this one",
                remedy="propose the incumbent or the candidate of another round",
            )


def facts(store: Store, case_id: str) -> dict[str, Any]:
    """The run's figures with its rounds, for people and pages."""
    history = history_of(store, case_id)
    found = {**summary(history), "case": case_id, "decisions": history.decisions}
    found |= {"seals_of_these_tasks": seals_of(store, case_id), "over": history.over}
    proposals = {key: {k: v for k, v in body.items() if k != "parts"} for key, body in history.journal.list("proposal")}
    memory = history.journal.list("memory")
    return {
        **found,
        "proposals": proposals,
        "memory": memory[-1][1] if memory else {"lessons": [], "directions": []},
        "nodes": [vars(node) for node in history.nodes],
        "spent": vars(store.budgets.state(case_id).used),
    }
