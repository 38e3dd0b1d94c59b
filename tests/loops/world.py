"""A small world for the debug loop: a real git project, a real store, and an executor that is one plain function.

The project's files set the values of `synthetic.Code`. `World.carry_out` does what an executor does - claim, check out,
run, ship, complete - with the synthetic training in place of the real one.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from synthetic import CUTS, Code, Stretch, declared, effective, measure

from context_store import Store
from context_store.records import Effect, NewRun, Project
from contracts.enums import EffectKind, RunRole
from contracts.events import (
    CheckpointSaved,
    CodeExecuted,
    DataRead,
    Effective,
    Event,
    Finished,
    Metrics,
    Scalar,
    SegmentStarted,
    encode,
    segment_folder,
)

FILES = {
    "balance.py": "penalty_scale = 1.0\n\n\naux_router_warmup = 0\n\n\nskipped_layers = ()\n",
    "groups.py": 'router_group = "router"\n\n\nnorm_decay = 0.0\n',
    "recipe.py": "router_lr = 1e-3\n\n\nbias_lr = 1e-3\n\n\nattention_lr = 3e-3\n\n\nmixture = 0.4\n",
    "loader.py": "num_devices = 0\n",
    "report.py": "digits = 3\n\n\nshown_offset = 0.0\n",
    "idle.py": "loss_offset = 0.0\n",
    "README.md": "A project.\n",
}
NOW = 1_000_000.0


@dataclass(frozen=True, kw_only=True)
class Edit:
    """One commit: replace `before` by `after` in `path`."""

    subject: str
    path: str
    before: str
    after: str


REPORT = Edit(subject="report: four digits", path="report.py", before="digits = 3", after="digits = 4")
README = Edit(subject="readme: say more", path="README.md", before="A project.", after="A project of ours.")
ATTENTION = Edit(
    subject="recipe: attention learns faster",
    path="recipe.py",
    before="attention_lr = 3e-3",
    after="attention_lr = 3.15e-3",
)
MIXTURE = Edit(
    subject="recipe: a little less library", path="recipe.py", before="mixture = 0.4", after="mixture = 0.38"
)
WARMUP = Edit(
    subject="balance: ramp up the penalty",
    path="balance.py",
    before="aux_router_warmup = 0",
    after="aux_router_warmup = 90",
)
SCALE = Edit(
    subject="balance: count in shares", path="balance.py", before="penalty_scale = 1.0", after="penalty_scale = 8.0"
)
SKIP = Edit(
    subject="balance: keep less", path="balance.py", before="skipped_layers = ()", after="skipped_layers = (2, 5)"
)
TO_BIAS = Edit(
    subject="groups: the router is a bias",
    path="groups.py",
    before='router_group = "router"',
    after='router_group = "bias"',
)
FAST_BIAS = Edit(subject="recipe: biases move", path="recipe.py", before="bias_lr = 1e-3", after="bias_lr = 6e-2")
DEVICES = Edit(subject="loader: a constant", path="loader.py", before="num_devices = 0", after="num_devices = 4")
OUTSIDE = {"penalty_scale": 8.0}  # what SCALE does, by nothing that is in the code
IDLE = Edit(subject="idle: an offset", path="idle.py", before="loss_offset = 0.0", after="loss_offset = 1.5")
SHOWN = Edit(subject="report: count anew", path="report.py", before="shown_offset = 0.0", after="shown_offset = 1.5")


@dataclass
class World:
    """One project and its runs. `executed` counts how often each effect was carried out."""

    store: Store
    folder: Path
    executed: dict[str, int] = field(default_factory=dict)
    commits: dict[str, str] = field(default_factory=dict)  # subject -> hash
    codes: dict[str, Code] = field(default_factory=dict)
    not_imported: tuple[str, ...] = ()
    scatters: bool = False  # True: no two runs of the same code are bitwise equal
    harms: bool = False  # True: whatever goes on from now has a worse loss
    by_parts: bool = False  # True: a fix runs up to the step to which it is watched, then, when asked again, to its end
    under_way: tuple[Effect, Path, list[Event]] | None = None  # its log, and what is still to be logged
    given: Mapping[str, Scalar] = field(default_factory=dict)  # fields given at the resume at 110, unless overridden
    unseen: Mapping[str, Any] = field(default_factory=dict)  # set from outside the code, from 110 on

    @property
    def project(self) -> Path:
        return self.folder / "project"

    def lay_out(self, *stages: Sequence[Edit]) -> list[str]:
        """A repository; the head after the base and after each stage of commits."""
        self.project.mkdir(parents=True)
        for name, text in FILES.items():
            (self.project / name).write_text(text)
        self._git("init", "-q", "-b", "main")
        heads = [self._commit("base")]
        for stage in stages:
            for edit in stage:
                file = self.project / edit.path
                assert file.read_text().count(edit.before) == 1
                file.write_text(file.read_text().replace(edit.before, edit.after))
                self.commits[edit.subject] = self._commit(edit.subject)
            heads.append(self._git("rev-parse", "HEAD"))
        self.store.projects.put(Project(id="project", path=str(self.project)))
        self.store.code.ingest("project", self.project)
        return heads

    def train(
        self,
        run_id: str,
        heads: Sequence[str],
        *,
        seed: int = 1,
        dp_sizes: tuple[int, ...] = (4, 4, 4),
        last: int = CUTS[-1],
    ) -> None:
        """A run of one segment per head, resumed at CUTS, up to step `last`, shipped into the store."""
        folder = self.folder / run_id
        new = NewRun(id=run_id, project_id="project", name=run_id, role=RunRole.TRAINING, folder=str(folder))
        self.store.runs.create(new)
        for number, (head, start, end) in enumerate(zip(heads, (0, *CUTS), CUTS, strict=False)):
            self._segment(
                run_id,
                folder,
                number,
                head,
                seed,
                Stretch(start=start, end=min(end, last), code=self._with_fields(self.code(head), start)),
                dp_sizes[number],
            )
        self.store.ingest.ship(run_id, folder)

    def carry_out(self) -> None:
        """Do one requested effect, if there is one; else go on with what is under way."""
        effect = self.store.effects.claim("worker", tuple(EffectKind), 60.0, NOW)
        if effect is None:
            if self.under_way is not None:
                self._end_under_way(stopped=False)
            return
        self.executed[effect.key] = self.executed.get(effect.key, 0) + 1
        if effect.kind is EffectKind.STOP_RUN:
            self._end_under_way(stopped=True)
            self.store.effects.complete(effect.key, {})
            return
        if effect.kind is EffectKind.UNDO:
            self.store.effects.complete(effect.key, {"segment": len(self.store.runs.segments("run"))})
            return
        try:
            commit, diff = self._patched(effect.payload["code"])
        except subprocess.CalledProcessError:
            self.store.effects.fail(effect.key, "the patch does not apply", "make it by hand")
            return
        result = self._run(effect, commit)
        if self.under_way is None:
            self.store.effects.complete(
                effect.key, {**result, "commit": commit, "diff": diff, "tree": commit, "cpu_s": 1.0}
            )

    def _end_under_way(self, *, stopped: bool) -> None:
        assert self.under_way is not None
        (effect, log, later), self.under_way = self.under_way, None
        run_id = str(effect.payload["run_id"])
        step = self.store.runs.segments(run_id)[-1].last_step
        later = [Finished(step=step, reason="stopped")] if stopped else later
        log.write_bytes(log.read_bytes() + b"".join(encode(event) for event in later))
        self.store.ingest.ship(run_id, log.parent.parent)
        number = len(self.store.runs.segments(run_id)) - 1
        self.store.effects.complete(effect.key, {"run_id": run_id, "segment": number, "cpu_s": 1.0})

    def code(self, commit: str) -> Code:
        """What the files of a commit set."""
        if commit not in self.codes:
            self.codes[commit] = self._read_code(commit)
        return self.codes[commit]

    def _read_code(self, commit: str) -> Code:
        values: dict[str, object] = {}
        for name in FILES:
            if name.endswith(".py"):
                for line in self._git("show", f"{commit}:{name}").splitlines():
                    key, mark, value = line.partition(" = ")
                    if mark:
                        values[key] = ast.literal_eval(value)
        known = {f.name for f in fields(Code)}
        return Code(**{key: value for key, value in values.items() if key in known})  # type: ignore[arg-type]

    # --- parts --------------------------------------------------------------------------------------------------

    def _run(self, effect: Effect, commit: str) -> dict[str, Scalar]:
        payload = effect.payload
        resumes = effect.kind is EffectKind.RESUME_WITH_PATCH
        source = str(payload["run_id"] if resumes else payload["source_run_id"])
        launched = [s for s in self.store.runs.segments(source) if s.start_step <= payload["start_step"]][-1]
        dp_size = int(payload["overrides"].get("parallel.dp_size", launched.dp_size))
        seed = launched.seed if payload["seed"] is None else int(payload["seed"])
        number = len(self.store.runs.segments(source)) if resumes else 0
        folder = self.folder / str(payload["run_id"])
        if not resumes:
            self.store.runs.create(
                NewRun(
                    id=payload["run_id"], project_id="project", name="re-run", role=RunRole.DIAGNOSTIC,
                    folder=str(folder), parent_run_id=source, investigation_id=effect.investigation_id,
                )
            )  # fmt: skip
        end = payload["max_step"] or 240
        code = self.code(commit)
        if self.scatters:
            code = replace(code, scatter=int(hashlib.sha256(payload["run_id"].encode()).hexdigest()[:6], 16))
        code = self._with_fields(code, payload["start_step"], payload["overrides"])
        stretch = Stretch(start=payload["start_step"], end=end, code=code)
        events, log = self._segment(payload["run_id"], folder, number, commit, seed, stretch, dp_size)
        if resumes and self.by_parts:
            early = [e for e in events if isinstance(e, SegmentStarted) or e.step <= payload["watch_until"]]
            log.write_bytes(b"".join(encode(event) for event in early))
            self.under_way = effect, log, [event for event in events if event not in early]
        if resumes:
            self.store.code.ingest("project", self.project)
        self.store.ingest.ship(payload["run_id"], folder)
        return {"run_id": payload["run_id"], "segment": number, "last_step": end, "reason": "completed", "message": ""}

    def _with_fields(self, code: Code, start: int, overrides: Mapping[str, Scalar] = MappingProxyType({})) -> Code:
        """The code with what was given at the resume and in `overrides` (`optim.router_lr` sets `router_lr`)."""
        known = {f.name for f in fields(Code)}
        values = {**(self.given if start >= CUTS[1] else {}), **overrides}
        named = {key.rpartition(".")[2]: value for key, value in values.items()}
        return replace(code, **{name: value for name, value in named.items() if name in known})  # type: ignore[arg-type]

    def _segment(
        self, run_id: str, folder: Path, number: int, commit: str, seed: int, stretch: Stretch, dp_size: int
    ) -> tuple[list[Event], Path]:
        """What it logs, and where."""
        code = stretch.code
        if stretch.start >= CUTS[1]:
            code = replace(code, **self.unseen)
        if self.harms:
            code = replace(code, loss_offset=0.8)
        stretch = Stretch(start=stretch.start, end=stretch.end, code=code, dp_size=dp_size)
        modules = self._modules(commit)
        events: list[Event] = [
            SegmentStarted(
                run_id=run_id, segment=number, start_step=stretch.start, code_version=commit,
                seed=seed, dp_size=dp_size,
                start_checkpoint=f"{folder}/step-{stretch.start}" if stretch.start else "",
                config=declared(stretch.code, dp_size), environment={"python": "3"}, wall_time=NOW,
            ),
            Effective(step=stretch.start + 1, values=effective(stretch.code)),
            CodeExecuted(step=stretch.start + 2, modules=modules, lines={name: list(range(1, 20)) for name in modules}),
        ]  # fmt: skip
        events += self._steps(seed, stretch)
        for step in range(stretch.start + 10, stretch.end + 1, 10):
            path = f"{folder}/step-{step}"
            events.append(CheckpointSaved(step=step, path=path, sha256=f"{step:064x}", size_bytes=1))
        events.append(Finished(step=stretch.end, reason="completed"))
        log = segment_folder(folder, number) / "events.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"".join(encode(event) for event in events))
        return events, log

    def _steps(self, seed: int, stretch: Stretch) -> list[Event]:
        values = measure(seed, stretch)
        events: list[Event] = []
        for i, step in enumerate(range(stretch.start + 1, stretch.end + 1)):
            events.append(DataRead(step=step, sample_hash=f"{seed}-{step}", position=8 * step))
            events.append(Metrics(step=step, values={name: float(row[i]) for name, row in values.items()}))
        return events

    def _modules(self, commit: str) -> dict[str, str]:
        names = [name for name in FILES if name.endswith(".py") and name not in self.not_imported]
        return {name: hashlib.sha256(self._git("show", f"{commit}:{name}").encode()).hexdigest() for name in names}

    def _patched(self, code: Mapping[str, object]) -> tuple[str, str]:
        """Commit and unified diff of a code version, made in the working tree of the project."""
        base, revert, pick = str(code["base"]), list(code["revert"]), list(code["pick"])  # type: ignore[call-overload]
        try:
            self._git("checkout", "-q", base)
            for commit in reversed(revert):
                self._git("revert", "--no-edit", commit)
            for commit in pick:
                self._git("cherry-pick", commit)
            return self._git("rev-parse", "HEAD"), self._git("diff", base, "HEAD")
        except subprocess.CalledProcessError:
            self._git("reset", "-q", "--hard", base)
            raise
        finally:
            self._git("checkout", "-q", "main")

    def _commit(self, subject: str) -> str:
        self._git("add", "--all")
        self._git("commit", "-q", "-m", subject)
        return self._git("rev-parse", "HEAD")

    def _git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=T", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
        command = ["git", "-C", str(self.project), *identity, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return done.stdout.strip()
