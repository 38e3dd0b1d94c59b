"""`Chat`: one question, one answer, kept in its thread. With or without a model it cites the same evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from agents.chat.answer import Answer
from agents.chat.cards import cards_of
from agents.chat.instructions import Instructions
from agents.chat.places import ChatContext
from agents.chat.threads import Exchange, Threads
from agents.llm.errors import ContextTooLong, ModelConfused, ModelRefused, ModelUnavailable
from contracts.errors import BudgetExceeded, UserInputError

_MAX_QUESTION = 4000


class Answers(Protocol):
    """`Retrieval` (without a model) and `ModelChat`."""

    def answer(self, question: str, context: ChatContext) -> Answer: ...


class Chat:
    """`model` None: `rules` answer. When the model fails or nothing of its answer holds, `rules` answer too.

    `instructions` obey orders to a running loop; None where nobody may give any.
    """

    def __init__(
        self,
        rules: Answers,
        threads: Threads,
        actor: str,
        clock: Callable[[], float],
        model: Answers | None = None,
        instructions: Instructions | None = None,
    ) -> None:
        self._rules = rules
        self._model = model
        self._threads = threads
        self._actor = actor
        self._clock = clock
        self._instructions = instructions

    def answer(self, question: str, context: ChatContext) -> Answer:
        """Raises UserInputError for an empty or endless question, NotFound for a context that is not there, and
        AnswerStopped, which leaves the thread as it was.
        """
        question = question.strip()
        if not 0 < len(question) <= _MAX_QUESTION:
            raise UserInputError(
                "the question is empty" if not question else f"the question is longer than {_MAX_QUESTION} characters",
                remedy="ask in a few sentences, for instance: what changed before step 180 of run RUN?",
            )
        answer = self._answer(question, context)
        answer = replace(answer, cards=cards_of(self._threads.store, answer))
        if context.thread_id:
            exchange = Exchange(question=question, answer=answer, actor=self._actor, at=self._clock())
            self._threads.add(context, exchange)
        return answer

    def _answer(self, question: str, context: ChatContext) -> Answer:
        obeyed = self._instructions.obey(question, context) if self._instructions is not None else None
        if obeyed is not None:
            return obeyed
        if self._model is None:
            return self._rules.answer(question, context)
        try:
            answer = self._model.answer(question, context)
        except (ModelUnavailable, ModelRefused, ModelConfused, ContextTooLong, BudgetExceeded) as error:
            plain = self._rules.answer(question, context)
            return replace(plain, notes=(f"answered without a model: {error.message} ({error.remedy})", *plain.notes))
        if answer.known:
            return answer
        plain = self._rules.answer(question, context)
        notes = (f"answered without {answer.brain}: {answer.gap}", *answer.notes)
        return replace(plain, removed=answer.removed, claimed=answer.claimed, notes=notes)
