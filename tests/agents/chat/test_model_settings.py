"""Models, fallbacks, thinking and context come from the settings, alike for chat, API and loops."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripted_server import ScriptedServer, Turn

from agents.chat import ChatContext
from agents.llm import Conversation, ThinkingMode, user
from benchmarks.agent_parts.stored_case import CASE, Stored
from context_store import Store
from context_store.records import Amount
from contracts.errors import ConfigError
from control_plane.chat import Mind, door_config_of, models_of, open_chat
from control_plane.doctor import examine
from control_plane.settings import Settings, load_settings

PLENTY = Amount(tokens=10_000_000, usd=100.0, wall_s=3600.0)


def settings_of(folder: Path, **more: object) -> Settings:
    return Settings.model_validate({"home": folder, **more})


def mind_of(settings: Settings) -> Mind:
    from langgraph.checkpoint.memory import InMemorySaver

    saver = InMemorySaver()
    models, config = models_of(settings), door_config_of(settings)
    return Mind(models=models, checkpointer=lambda: saver, budget=PLENTY, door_config=config)


def test_settings_say_which_models_and_how(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path, model="openai/a", model_fallbacks=" openai/b, ,openai/a,openai/c", thinking="stateless",
        thinking_tokens=2000, context_tokens=8192,
    )  # fmt: skip
    assert [each.name for each in models_of(settings)] == ["openai/a", "openai/b", "openai/c"]
    config = door_config_of(settings)
    assert (config.thinking, config.context.max_tokens) == (ThinkingMode.STATELESS, 8192)
    assert config.max_tokens > 2000
    assert models_of(settings_of(tmp_path, model_fallbacks="openai/b")) == ()


def test_a_fallback_of_the_settings_answers_in_chat(tmp_path: Path, still_store: Store, stored: Stored) -> None:
    claim = f"The balance commit causes it [verdict:{stored.verdict_id}]."
    context = ChatContext(investigation_id=CASE, thread_id="t")

    def script(body: dict[str, object]) -> Turn:
        return Turn(status=503, retry_after_s=100.0) if body["model"] == "first" else Turn(text=claim)

    with ScriptedServer(script) as server:
        settings = settings_of(
            tmp_path, model="openai/first", model_fallbacks="openai/second", api_base=f"{server.url}/v1"
        )
        door = mind_of(settings).door(still_store, "chat:t")
        assert door is not None
        said = door.ask(Conversation(messages=(user("why?"),))).messages[-1]
        assert (said.model, said.text) == ("openai/second", claim)
        assert "asking openai/second instead" in door.notes[0]
        answer = open_chat(still_store, mind_of(settings), context, "ada").answer("why?", context)
    assert any("asking openai/second instead" in note for note in answer.notes)


def test_loss_of_thinking_between_two_questions_of_a_thread_is_said(
    tmp_path: Path, still_store: Store, stored: Stored
) -> None:
    """Each question has a chat of its own, as in the API. Shows RM2-7.4."""
    context = ChatContext(investigation_id=CASE, thread_id="t")
    turns = [Turn(thinking="one thought " * 60, text="a"), Turn(text="b")]
    with ScriptedServer(turns, forgets_thinking=True) as server:
        mind = mind_of(settings_of(tmp_path, model="openai/m", api_base=f"{server.url}/v1"))
        first = open_chat(still_store, mind, context, "ada").answer("why?", context)
        second = open_chat(still_store, mind, context, "ada").answer("and since when?", context)
    said = "does not give earlier thinking back"
    assert not any(said in note for note in first.notes)
    assert any(said in note for note in second.notes)


def test_the_doctor_lists_models_thinking_and_context(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, model="openai/a", model_fallbacks="openai/b", thinking="none")
    model, thinking = examine(settings, {"model"})
    assert model.detail.startswith("openai/a then openai/b")
    assert thinking.detail == "thinking none; context of 128000 tokens"
    (unused,) = examine(settings_of(tmp_path, model_fallbacks="openai/b"), {"model"})
    assert "LATHE_MODEL_FALLBACKS" in unused.remedy


def test_a_wrong_mode_is_refused_by_its_variable(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LATHE_THINKING", "sometimes")
    with pytest.raises(ConfigError, match="LATHE_THINKING"):
        load_settings(tmp_path)
