"""Roles of agents in a case, each a LangGraph graph: look -> (think -> check | plain). `plain` needs no model.

hypothesis  which suspect first, with cited reasons
critic      what speaks against a verdict; a proof that lacks something is withheld by rules
reporter    the case as Markdown and HTML with plots; claims without existing evidence are removed, and counted
colleague   the three of them as the loops use them
"""

from agents.roles.colleague import Colleague
from agents.roles.critic import Critic, withheld
from agents.roles.hypothesis import Hypothesis, order_of
from agents.roles.opinion import Opinion, Role
from agents.roles.reporter import CaseReport, Reporter, grounded

__all__ = [
    "CaseReport", "Colleague", "Critic", "Hypothesis", "Opinion", "Reporter", "Role", "grounded", "order_of",
    "withheld",
]  # fmt: skip
