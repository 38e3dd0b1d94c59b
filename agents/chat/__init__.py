"""Talking about trainings: every statement cites evidence of the store, or says that the store does not know.

retrieval   without a model: what a question asks (reading, forms, questions), what it names (places), the passages of
            cases it may be about (passages, weighing), whether what it asks for stands there (answerable), and rules
            for names and numbers (measured, happened, found_out, standing); following spells out what leans on the
            thread
graph       with a model: tools, then every claim checked
chat        `Chat`, which uses one or both and keeps threads
"""

from agents.chat.answer import RULES, Answer, Card, CardKind, Statement
from agents.chat.chat import Answers, Chat
from agents.chat.graph import ChatLimits, ModelChat
from agents.chat.instructions import Instructions
from agents.chat.places import ChatContext
from agents.chat.retrieval import Retrieval
from agents.chat.threads import Exchange, Threads

__all__ = [
    "RULES",
    "Answer",
    "Answers",
    "Card",
    "CardKind",
    "Chat",
    "ChatContext",
    "ChatLimits",
    "Exchange",
    "Instructions",
    "ModelChat",
    "Retrieval",
    "Statement",
    "Threads",
]
