"""The archive of a run: every candidate is a commit of the scaffold's repository, on refs that no branch knows.

    refs/lathe/evolve/RUN/candidates/0007   the candidate of round 7, kept or not; its parent is what it was made from
    refs/lathe/evolve/RUN/verdicts/0007     an annotated tag on it: evidence, cost, seeds, decision
    refs/lathe/evolve/RUN/prompts/0007      a blob: all that a model was asked for it, if one was
    refs/lathe/evolve/RUN/controls/0050     what a positive control was compared with
    refs/lathe/evolve/RUN/incumbent         what is best so far; keeping and reverting move this ref, nothing else

Commits have fixed names and dates, so the same decisions give the same hashes on every machine.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from contracts.errors import EnvironmentFault, RepositoryError

Files = Mapping[str, str]
_EPOCH = 1_700_000_000
_WHO = "Lathe <lathe@localhost>"
_PLAIN = ("100644", "100755")
_QUIET = (
    "core.hooksPath=/dev/null",
    "gc.auto=0",
    "commit.gpgSign=false",
    "core.fsmonitor=false",
    "core.autocrlf=false",
)


class Archive:
    """One run in one repository. `folder` is the scaffold's; nothing checked out there is touched."""

    def __init__(self, folder: Path, run: str) -> None:
        self._folder = folder
        self._refs = f"refs/lathe/evolve/{run}"

    @classmethod
    def begin(cls, folder: Path, run: str, files: Files) -> Archive:
        """In a new repository at `folder` whose first commit holds `files`; an existing one is used as it is."""
        archive = cls(folder, run)
        if not (folder / ".git").exists() and not (folder / "HEAD").exists():
            folder.mkdir(parents=True, exist_ok=True)
            archive._git("init", "-q", "--bare")
        archive.keep(archive.commit(files, parent=None, number=0, message="The scaffold as it was"))
        return archive

    @classmethod
    def adopt(cls, folder: Path, run: str, commit: str) -> Archive:
        """In the repository a scaffold already has, from one of its commits on."""
        archive = cls(folder, run)
        if archive.refs().get("incumbent") is None:
            archive.keep(commit)
        return archive

    @classmethod
    def beside(cls, folder: Path, other: Archive, commit: str) -> Archive:
        """In a new repository at `folder` that reads the objects of `other` and writes its own: a run begins again at
        `commit`, and nothing of the other repository is touched."""
        archive = cls(folder, "")
        archive._refs = other._refs
        folder.mkdir(parents=True, exist_ok=True)
        archive._git("init", "-q", "--bare")
        objects = (other._folder / other._git("rev-parse", "--git-path", "objects").strip()).resolve()
        (folder / "objects" / "info" / "alternates").write_text(f"{objects}\n")
        archive.keep(commit)
        return archive

    def commit(self, files: Files, *, parent: str | None, number: int, message: str, place: str = "candidates") -> str:
        """The hash of round `number`'s candidate; its ref below `place` is made or is the same already.

        A file that the parent could execute stays one.
        """
        tree = self._tree(files, () if parent is None else self._executable(parent))
        parents = () if parent is None else ("-p", parent)
        commit = self._git("commit-tree", tree, *parents, "-F", "-", given=message, number=number).strip()
        self._git("update-ref", f"{self._refs}/{place}/{number:04d}", commit)
        return commit

    def verdict(self, commit: str, number: int, text: str) -> None:
        """Notes evidence and decision as an annotated tag on the commit."""
        tagger = f"tagger {_WHO} {_EPOCH + number} +0000"
        body = f"object {commit}\ntype commit\ntag verdict-{number:04d}\n{tagger}\n\n{text}\n"
        tag = self._git("mktag", given=body).strip()
        self._git("update-ref", f"{self._refs}/verdicts/{number:04d}", tag)

    def attach(self, text: str, number: int, place: str = "prompts") -> str:
        """The hash of a blob that belongs to round `number`."""
        blob = self._git("hash-object", "-w", "--stdin", given=text).strip()
        self._git("update-ref", f"{self._refs}/{place}/{number:04d}", blob)
        return blob

    def keep(self, commit: str) -> None:
        """The incumbent is this commit now; to the same commit it moves nothing."""
        self._git("update-ref", f"{self._refs}/incumbent", commit)

    @property
    def incumbent(self) -> str:
        return self._git("rev-parse", f"{self._refs}/incumbent").strip()

    def refs(self) -> dict[str, str]:
        """All of the run's refs with the objects they stand at."""
        lines = self._git("for-each-ref", "--format=%(refname) %(objectname)", self._refs).splitlines()
        return {name.removeprefix(self._refs + "/"): value for name, value in (line.split() for line in lines)}

    def tree_of(self, commit: str) -> str:
        return self._git("rev-parse", f"{commit}^{{tree}}").strip()

    def diff(self, before: str | None, after: str) -> str:
        """Exact, the same whatever a person's settings of git are; None: against nothing."""
        empty = self._git("hash-object", "-w", "-t", "tree", "/dev/null").strip() if before is None else ""
        options = ("-p", "-U3", "--full-index", "--no-ext-diff", "--no-textconv", "--no-renames")
        return self._git("diff-tree", *options, before or empty, after)

    def stands_at(self, ref: str) -> str | None:
        """The commit of any ref of the repository, None where there is none."""
        return self._git("for-each-ref", "--format=%(objectname)", ref).strip() or None

    def files(self, commit: str) -> dict[str, str]:
        """All files of a commit. RepositoryError for a link, a submodule or what is no text."""
        found = {}
        for name, (mode, blob) in self._entries(commit).items():
            if mode not in _PLAIN:
                raise RepositoryError(f"{name} of the scaffold is no plain file", remedy="keep plain files only")
            try:
                found[name] = self._bytes("cat-file", "blob", blob).decode()
            except UnicodeDecodeError as error:
                raise RepositoryError(f"{name} of the scaffold is no text", remedy="keep text files only") from error
        return found

    def _entries(self, commit: str) -> dict[str, tuple[str, str]]:
        """(mode, object) of each name."""
        lines = [line.partition("\t") for line in self._git("ls-tree", "-r", "-z", commit).split("\0") if line]
        return {name: (facts.split()[0], facts.split()[2]) for facts, _, name in lines}

    def export(self, commit: str, folder: Path) -> Path:
        """A copy of the commit that everybody may read, made once, complete or not at all."""
        target = folder / commit
        if not target.exists():
            draft = Path(tempfile.mkdtemp(dir=folder))
            for name, text in self.files(commit).items():
                path = draft / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            executable = self._executable(commit)
            for path in (draft, *draft.rglob("*")):
                path.chmod(0o755 if path.is_dir() or str(path.relative_to(draft)) in executable else 0o644)
            os.replace(draft, target)
        return target

    def _executable(self, commit: str) -> set[str]:
        return {name for name, (mode, _) in self._entries(commit).items() if mode == "100755"}

    def _tree(self, files: Files, executable: Collection[str]) -> str:
        lines = []
        for name in sorted(files):
            blob = self._git("hash-object", "-w", "--stdin", given=files[name]).strip()
            lines.append(f"{100755 if name in executable else 100644} {blob}\t{name}")
        with tempfile.TemporaryDirectory() as place:
            index = {"GIT_INDEX_FILE": f"{place}/index"}
            self._git("update-index", "--add", "--index-info", given="\n".join(lines) + "\n", env=index)
            return self._git("write-tree", env=index).strip()

    def _git(self, *words: str, given: str = "", number: int = 0, env: Mapping[str, str] | None = None) -> str:
        out = self._bytes(*words, given=given, number=number, env=env)
        try:
            return out.decode()
        except UnicodeDecodeError as error:
            raise RepositoryError(f"git {words[0]}: it is no text", remedy="keep text files only") from error

    def _bytes(self, *words: str, given: str = "", number: int = 0, env: Mapping[str, str] | None = None) -> bytes:
        options = [part for setting in _QUIET for part in ("-c", setting)]
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        name, _, mail = _WHO.partition(" ")
        for who in ("AUTHOR", "COMMITTER"):
            clean |= {f"GIT_{who}_NAME": name, f"GIT_{who}_EMAIL": mail.strip("<>")}
            clean[f"GIT_{who}_DATE"] = f"{_EPOCH + number} +0000"
        try:
            done = subprocess.run(
                ["git", *options, *words], cwd=self._folder, env={**clean, "LC_ALL": "C", **(env or {})},
                input=given.encode(), capture_output=True, check=False,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise EnvironmentFault("git was not found", remedy="install git 2.38 or newer") from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise RepositoryError(
                f"git {words[0]}: {' '.join(said)} (in {self._folder})", remedy="check the repository with: git fsck"
            )
        return done.stdout


def read_files(folder: Path) -> dict[str, str]:
    """The files of a scaffold folder that is not under git yet; caches are left out."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(folder)): path.read_text() for path in paths if ".git" not in path.parts}
