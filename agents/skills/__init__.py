"""Skills: typed actions that agents chain, in three levels (RM2-7.12): atomic -> composite -> workflow.

skill     what a skill is: typed inputs and outputs, conditions before and after, and what it may use
book      `SkillBook`: checks, runs and counts them
library   the skills there are
learned   skills that agents put together from repeated actions: tried before they count, versioned, retired
"""

from agents.skills.book import SkillBook
from agents.skills.learned import learn_from, with_skills
from agents.skills.library import LIBRARY, skills_for
from agents.skills.skill import Condition, ConditionFailed, Fact, Facts, Level, Skill, Use

__all__ = [
    "LIBRARY",
    "Condition",
    "ConditionFailed",
    "Fact",
    "Facts",
    "Level",
    "Skill",
    "SkillBook",
    "Use",
    "learn_from",
    "skills_for",
    "with_skills",
]
