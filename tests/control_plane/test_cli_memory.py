"""`lathe evals`, `data`, `config`, `code`, `environment`, `why`, `completeness`, `owner` on a real store."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from context_store.records import UNKNOWN_OWNER, NewRun, Project
from contracts.enums import RunRole
from contracts.events import CheckpointSaved, Effective, Metrics, SegmentStarted, encode, segment_folder
from control_plane.settings import Settings
from control_plane.wiring import Lathe

Command = Callable[..., tuple[object, str, str]]


@pytest.fixture
def command(settings: Settings, lathe: Lathe, tmp_path: Path, run_lathe: Command) -> Command:
    """Runs `lathe ARGUMENTS` on a store with run `t` of project `p`."""
    make_training(lathe, tmp_path)
    return partial(run_lathe, settings.as_environment())


def make_training(lathe: Lathe, folder: Path) -> None:
    """Project `p` under git with one commit and an uncommitted file; run `t` of ten steps with a checkpoint."""
    repository = folder / "repository"
    repository.mkdir()
    (repository / "train.py").write_text("def step(config):\n    return config.optim.router.lr\n")
    git = ["git", "-C", str(repository), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "start"]):
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    (repository / "more.py").write_text("MORE = 1\n")
    lathe.store.projects.put(Project(id="p", path=str(repository)))
    lathe.store.runs.create(NewRun(id="t", project_id="p", name="t", role=RunRole.TRAINING, folder=str(folder / "t")))
    config = {"optim.router.lr": 0.1, "model.d_model": 256, "model.d_ff": 1024, "data.mixture.web": 0.5}
    events: list[Any] = [
        SegmentStarted(
            run_id="t",
            segment=0,
            start_step=0,
            code_version=head,
            seed=1,
            dp_size=2,
            start_checkpoint="",
            config=config,
            environment={"host": "node-1"},
            wall_time=1.0,
        ),
        *(Metrics(step=step, values={"loss": 1.0, "grad_norm/layers.1.router": 1.0}) for step in range(1, 11)),
        Effective(step=5, values={"optim.router.lr": 0.2, "data.mixture.web": 0.7}),
        CheckpointSaved(step=10, path="/c/10", sha256="sha-10", size_bytes=1),
    ]
    log = segment_folder(folder / "t", 0) / "events.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"".join(map(encode, events)))
    lathe.store.ingest.ship("t", folder / "t")


def test_scores_are_imported_ranked_compared_and_explained(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    content: dict[str, Any] = {"results": {"arc": {"acc,none": 0.5, "acc_stderr,none": 0.1}}, "n-shot": {"arc": 5}}
    path.write_text(json.dumps(content))
    status, _, err = command("evals", "import", path)
    assert (status, "which checkpoint" in err) == (2, True)
    status, out, err = command("evals", "import", path, "--run", "t", "--step", 10, "--json")
    assert status == 0, err
    (score,) = json.loads(out)
    assert (score["checkpoint"], score["step"]) == ("sha-10", 10)
    content["n-shot"] = {"arc": 0}
    path.write_text(json.dumps(content))
    invented = ("--checkpoint", "a/b", "--recipe", "r", "--project", "p")
    status, _, err = command("evals", "import", path, *invented)
    assert (status, "nothing here has the weights 'a/b', nor the recipe 'r'" in " ".join(err.split())) == (2, True)
    for name in ("weights.bin", "recipe.py"):
        (tmp_path / name).write_text("x")
    made = ("--checkpoint", tmp_path / "weights.bin", "--recipe", tmp_path / "recipe.py")
    named = (*made, "--project", "p", "--json")
    other = json.loads(command("evals", "import", path, *named)[1])[0]
    status, out, _ = command("evals", "rank", "arc")
    assert (status, "apart: not comparable: shots is 5 in one and 0 in the other" in " ".join(out.split())) == (0, True)
    status, _, err = command("evals", "import", path, *named[:-2], "unknown")
    assert (status, "no project 'unknown'" in err, "one of: p" in err, "DETAIL" in err) == (2, True, True, False)
    status, out, _ = command("evals", "compare", score["id"], other["id"])
    assert (status, "not comparable" in out) == (0, True)
    assert len(json.loads(command("evals", "list", "--json")[1])) == 2
    assert "t step 10" in command("evals", "list")[1]
    status, out, _ = command("why", f"score:{score['id']}")
    assert status == 0
    assert "was trained as run:t#..10" in out
    assert "output:" in out
    raw = json.loads(command("why", "score", score["id"], "--json")[1])["raw_slices"]
    assert str(path) in {each["ref"].partition(":")[2] for each in raw}
    status, _, err = command("evals", "import", path, "--run", "t", "--step", 3)
    assert (status, "no checkpoint at step 3" in err) == (2, True)


def test_scores_that_nobody_can_place_are_counted_not_hidden(command: Command, tmp_path: Path) -> None:
    assert "lathe evals import LOG --run RUN" in " ".join(command("evals", "list")[1].split())
    folder = tmp_path / "evals"
    folder.mkdir()
    content = {"results": {"arc": {"acc,none": 0.5, "acc_stderr,none": 0.1}}, "config": {"model_args": "x"}}
    (folder / "results.json").write_text(json.dumps(content))
    assert command("ingest", folder)[0] == 0
    status, _, err = command("evals", "rank", "arc")
    assert (status, "1 without lineage are left out" in err, "lathe evals import" in err) == (2, True, True)
    assert command("evals", "import", folder / "results.json", "--run", "t", "--step", 10)[0] == 0
    found = json.loads(command("evals", "rank", "arc", "--json")[1])
    assert [len(group["scores"]) for group in found["rankings"]] == [1]
    assert [each["count"] for each in found["left_out"]] == [1]
    text = " ".join(command("evals", "rank", "arc")[1].split())
    assert "left out: 1 scores imported as run" in text
    assert "none of them says: " in text


def test_data_is_loaded_resolved_and_decontaminated(command: Command, tmp_path: Path) -> None:
    catalog = {
        "pipelines": [{"id": "web", "stages": [{"key": "crawl", "level": "L0"}, {"key": "rules", "level": "L2"}]}],
        "stage_versions": [
            {"pipeline_id": "web", "stage": stage, "code_version": "v1"} for stage in ("crawl", "rules")
        ],
        "subsets": [
            {
                "id": "web",
                "pipeline_id": "web",
                "source": "https://example.org",
                "trace": [{"stage": stage, "code_version": "v1"} for stage in ("crawl", "rules")],
            }
        ],
        "documents": [{"id": "d", "subset_id": "web", "source": "https://example.org/d", "texts": ["a b", "a"]}],
    }
    path = tmp_path / "catalog.json"
    path.write_text(json.dumps(catalog))
    status, out, err = command("data", "load", path, "--json")
    assert status == 0, err
    assert json.loads(out) == {"pipelines": 1, "subsets": 1, "documents": 1}
    assert "L2" in command("data", "pipelines")[1]
    assert "https://example.org" in command("data", "subsets")[1]
    assert "rules" in command("data", "subset", "web")[1]
    assert "a b" in command("data", "document", "d")[1]
    status, out, _ = command("data", "mixture", "t", "--json")
    assert [(each["before"], each["after"], each["subset_id"]) for each in json.loads(out)] == [
        (None, 0.5, "web"),
        (0.5, 0.7, "web"),
    ]
    assert json.loads(command("data", "mixture", "t", "--step", 4, "--json")[1]) == {"web": 0.5}
    path.write_text(json.dumps({"pipelines": [{"id": "x", "stages": [{"key": "a", "level": "L10"}]}]}))
    status, _, err = command("data", "load", path)
    assert (status, "pipelines.0.stages.0.level" in err) == (2, True)

    (tmp_path / "qa.txt").write_text("one two three four five six seven eight nine")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "leak.txt").write_text("zero one two three four five six seven eight")
    assert command("data", "register", "qa", tmp_path / "qa.txt")[0] == 0
    assert "qa" in command("data", "benchmarks")[1]
    status, out, _ = command("data", "decontaminate", corpus)
    assert (status, "1 of 1 documents share 8 words in a row with 1 of 1 items" in " ".join(out.split())) == (0, True)
    (report,) = json.loads(command("data", "decontaminate", corpus, "--benchmark", "qa", "--json")[1])["reports"]
    assert report["leaks"][0]["document"] == "leak.txt"


def test_configuration_code_environment_and_owners(command: Command, lathe: Lathe) -> None:
    assert "0.2" in command("config", "show", "t")[1]
    (change, _) = json.loads(command("config", "diff", "t@4", "t@5", "--json")[1])[::-1]
    assert (change["key"], change["before"], change["after"]) == ("optim.router.lr", 0.1, 0.2)
    checked = command("config", "check", "t", "--against", "t@4")[1]
    assert "0.2" in checked
    assert "how 2 of 4 declared fields were used: not recorded" in checked
    assert "How the 4 declared fields were used: not recorded." in command("config", "check", "t@4")[1]
    assert command("config", "changes", "t")[0] == 0
    status, _, err = command("config", "show", "nowhere")
    assert (status, "nothing is stored of 'nowhere'" in err) == (2, True)

    status, out, err = command("code", "link", "p", "--json")
    assert status == 0, err
    assert json.loads(out) == {"new_commits": 1, "hunks": 1}
    lathe.store.projects.put(Project(id="q", path="elsewhere:/logs/a.log", owner="bob"))
    status, _, err = command("code", "link", "q")
    assert (status, "imported from /logs/a.log" in err, "--repository PATH" in err) == (2, True, True)
    repository = lathe.store.projects.get("p").path
    assert json.loads(command("code", "link", "q", "--repository", repository, "--json")[1])["new_commits"] == 1
    (link, *_) = json.loads(command("code", "links", "p", "--series", "grad_norm/layers.7.router", "--json")[1])
    assert (link["path"], link["field"]) == ("train.py", "optim.router.lr")
    assert command("code", "links", "p")[0] == 2
    assert "worktree-" in command("code", "snapshot", "p")[1]
    assert "--repository PATH" in command("code", "snapshot", "q")[2]

    assert (
        command("environment", "record", "t", "--step", 6, "--set", "rank.1.host=node-7", "--set", "driver=1.0")[0] == 0
    )
    assert "node-7" in command("environment", "show", "t")[1]
    assert "node-7" not in command("environment", "show", "t", "--step", 5)[1]

    assert lathe.store.projects.get("p").owner == lathe.store.runs.get("t").owner == lathe.settings.actor
    lathe.store.projects.put(Project(id="old", path="/old", owner=UNKNOWN_OWNER))
    status, out, _ = command("completeness", "--missing")
    assert (status, "lathe owner old NAME" in out, "lathe evals" not in out) == (0, True, True)
    assert command("owner", "old", "ada")[0] == 0
    report = json.loads(command("completeness", "--json")[1])
    assert report["unowned"] == []
    assert {each["kind"] for each in report["kinds"] if each["count"]} >= {"hunk links", "mixtures", "checkpoints"}
    status, _, err = command("why", "rumour", "1")
    assert (status, "no kind of object" in err) == (2, True)
