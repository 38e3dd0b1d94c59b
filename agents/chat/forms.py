"""How people ask: the kinds of questions, each with the forms by which it is told. The first kind that fits counts.

A form is a regular expression without regard to case. What it matches is taken out of the topic of the question when it
is short, so a form ends before the thing that is asked about (`(?=...)` looks further without taking).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Kind(StrEnum):
    INVESTIGATE = "investigate"
    COMMIT = "commit"
    COMPARE = "compare"
    DECISIONS = "decisions"
    PROOF = "proof"
    TREND = "trend"
    TRIED = "tried"
    WHY_NOT = "why_not"
    FIX = "fix"
    HISTORY = "history"
    SYMPTOM = "symptom"
    DEPARTS = "departs"
    CHANGED = "changed"
    SIMILAR = "similar"
    WHEN = "when"
    WHY = "why"
    RUNS = "runs"
    STATUS = "status"
    VALUE = "value"
    OTHER = "other"


BLAME = (
    "(?:"
    + "|".join(
        (
            r"to blame",
            r"responsible",
            r"guilty",
            r"at fault",
            r"innocent",
            r"because of",
            r"due to",
            r"behind",
            r"harmless",
            r"the (?:\w+ )?(?:cause|reason|culprit|fault)\b",
            r"caus\w+",
            r"broke\b",
            r"break\b",
            r"explain\w*",
            r"trigger\w*",
            r"lead to",
            r"led to",
        )
    )
    + ")"
)
_CHANGE = (
    r"(?:chang\w*|differ\w*|new\b|touch\w*|modif\w+|alter\w*|swap\w*|switch\w*|replac\w+|tweak\w*|updat\w+"
    r"|upgrad\w+|introduc\w+|bump\w*|rais\w+)"
)
_TELLS = r"(?:curves?|plots?|tests?|logs|charts?|graphs?|averaged)\b"  # by which a fault might be told
FORMS: Mapping[Kind, tuple[str, ...]] = {
    Kind.INVESTIGATE: (r"^\W*(please )?(investigate|diagnose|look into|start (an )?investigation|open a case)\b",),
    Kind.COMMIT: (r"\b(commit|hunks? of|diff of|change)\s+[0-9a-f]{7,40}\b",),
    Kind.COMPARE: (
        r"\b(compare|versus|vs\.?)\b",
        r"\bdifferences? (?:between|from|to)\b",
        r"\bhow (?:do|does|did|is|are)\b.*\bdiffer\w*\b",
        r"\bdifferent (?:between|from|in|about)\b",
        r"\bdistinguish",
    ),
    Kind.DECISIONS: (
        r"\b(propos\w*|approv\w*|decid\w*|decision\w*|reject\w*|sign(?:ed)? (?:it )?off|waits?|waiting"
        r"|green light)\b",
        r"\b(?:need|needs) (?:my|our|an?) (?:approval|decision|attention)\b",
        r"\b(?:the|an?|gave|give|given|say|said|whose) (?:ok|okay|yes|go-?ahead|permission|blessing|consent|nod)\b",
        r"\bwho (?:\w+ )?(?:agreed|allowed|authori[sz]ed|cleared|accepted|okayed|ok'?d|permitted|let)\b",
    ),
    Kind.PROOF: (
        r"\b(re-?runs?|re-?ran|replay\w*|placebo|counterfactual\w*|reproduc\w*|overturn\w*|repeatab\w*|fluke)\b",
        r"\b(?:control run|the control|exactly the same|same numbers|bitwise|from scratch|by chance"
        r"|coincidence|on top of)\b",
        r"\b(?:take|taking|leave|leaving|taken|left) (?:\w+ ){0,3}out\b",
        r"\brun\b.*\bagain\b",
        r"\bhow (?:sure|certain|confident|strong|solid|well)\b",
        r"\bproof\b",
        r"\bprove[ds]?\b",
        r"\bproven\b",
        r"\bevidence\b",
        r"\b(?:other|different|fresh|another|more|new|all|random|which|many) seeds?\b",
        r"\bverdicts?\b",
        r"\bconfiden\w+\b",
    ),
    Kind.TRIED: (
        r"\b(?:remed\w+|attempts?|fixes|repairs?|prs|patches|ideas|measures|things) (?:\w+ ){0,2}?(?:fail\w*|reject\w*"
        r"|useless|closed|in vain|without success)",
        r"\b(?:in vain|without success|to no avail)\b",
        rf"\b(?:see|seen|notice\w*|spot\w*|tell|catch|caught|reveal\w*|detect\w*|overlay|judge|read)\b.*\b{_TELLS}",
        rf"\b{_TELLS}.*\b(?:catch|caught|reveal\w*|detect\w*|show|tell)\b",
        r"\b(tried|try|tries|trying|tested|attempt\w*|experiment\w* with|any good|any use|overlay)\b",
        r"^\W*(?:did|does|do|would|will)\b(?=.*\b(?:cure|cured|fix|solve|solved|help|notice|suffice|work)\b)",
        r"\bcan'?t (?:i|we|you) just\b",
        r"\b(?:ever|not|\w+n't) (?:work|help)",
        r"\b(?:did|has|have) (?:anyone|anybody|someone|somebody|we|you|they) (?:ever )?(?:look|check"
        r"|examin|consider|investigat)\w*",
        r"\b(?:did|has|have|does|do|would|will)\b(?=.*\b(?:help|helped|helps)\b)",
        r"\bruled out\b.*\bwhat\b",
    ),
    Kind.WHY_NOT: (
        r"\bwhy not\b",
        r"\b(?:theor\w+|hypothes\w+|suspicions?)\b",
        r"\bwhy (?:is|was|are|were|could|can)n'?t\b",
        r"\bwhy (?:is|was|are|were) (?:it|that|this|\w+) not\b",
        r"\brul(?:e|ed|ing) (?:\w+ ){0,6}out\b",
        r"\bexclud\w*\b",
        r"\binnocent\b",
        r"\bnot the (?:cause|culprit|reason)\b",
        r"\bexonerat\w*",
        r"\bsuspect\w*\b",
        r"\bnot to be (?:it|the)\b",
        r"\bturned out (?:not|innocent|harmless|fine)\b",
        r"\bwhy isn'?t\b",
        r"\bred herring",
        rf"^\W*(?:so |and |but )?(?:is|was|are|were|could|might|may|can|did|does)\b(?=.*\b{BLAME})",
        r"\b(?:is|was) (?:it|this|that) (?:really |perhaps |maybe |just )?(?:due to|because|caused by|the|a|an)\b",
        r"\bcould \w+ (?:be|have)\b",
        r"\bdo we (?:blame|suspect)\b",
    ),
    Kind.FIX: (
        r"\bwhat (?:was|were|is|has been|had to be) (?:then |finally )?done\b",
        r"\bwhat d(?:id|o) (?:they|we|you|people|i) (?:then |finally )?do\b",
        r"\b(?:any|some)thing (?:was |been )?done\b",
        r"\b(fix|fixed|fixes|mend\w*|solv\w*|solution|remed\w*|workaround|work-around|cured?|resolv\w*"
        r"|repair\w*|under control|roll(?:ed)? ?-?back|back to normal|(?:ok|okay|fine|healthy"
        r"|good) again|anything left)\b",
    ),
    Kind.TREND: (
        r"^\W*how (?:did|has|have|does)\b.*\b(?:change|changed|evolve\w*|develop\w*|behave\w*)\b",
        r"^\W*(?:and |but |so )?(?:did|does|do|has|have|is|are|was|were)\b(?!.*\b(?:fix\w*|help\w*"
        r"|work\w*|caus\w+|before\?|seen|had)\b).*\b(?:go(?:ne|ing)? (?:up|down)|went|ris(?:e|en|ing)"
        r"|rose|fall(?:en|ing)?|fell|drop\w*|increas\w*|decreas\w*|worse|better|higher|lower|normal"
        r"|diverg\w*|spik\w*|explod\w*|collaps\w*|recover\w*|stable|unstable|affected|jump\w*|chang(?:e"
        r"|ed|ing)$|improv\w*|degrad\w*|suffer\w*|shrink|grow\w*|unusual|abnormal|anomal\w*)\b",
    ),
    Kind.SYMPTOM: (
        r"\b(?:which|what) (?:curves?|metrics?|series|quantit\w+|plots?|numbers|signals?|symptoms?)\b",
        r"\bsymptoms?\b",
    ),
    Kind.HISTORY: (
        r"\bcommits?\b(?!.*\b(?:broke|caus\w+|responsible|blame|culprit)\b)(?!.*\b(?:before|between"
        r"|since|until|prior|after|in force|around)\b)",
        r"\bcommitted\b",
        r"\bwho (?:wrote|changed|touched|edited|authored|added)\b",
        r"\bdid (?:\w+ ){1,2}(?:commit|touch|write|edit)\b",
        r"\bdid (?-i:[A-Z]\w+) (?:\w+ )?change\b",
        r"\b[\w/]+\.py\b",
        r"\bauthor\b",
    ),
    Kind.DEPARTS: (
        r"\b(?:which|what|whose) (?:of the )?(?:\w+ )?(?:layer|expert|rank|module|node)s?\b",
        r"\bdepart\w*\b",
        r"\bwhere in the model\b",
        r"^\W*(?:is|was|are|were|did|does|do) (?:the )?(?:layer|expert)s? \d+\b",
        r"\b(?:all|every|each|some|few|most)(?: of)? (?:the )?(?:layer|expert)s?\b",
    ),
    Kind.CHANGED: (
        rf"\b(?:what|which)(?:'s)? (?:\w+ ){{0,4}}?{_CHANGE}",
        r"\bwhat (?:\w+ ){0,3}happen\w* (?:\w+ )?(?:before|at|around|between|prior|until|up to)\b",
        r"\bchang(?:e|es|ed)\b.*\b(?:before|between|around|prior|since|until|at|during|after)\b",
        rf"^\W*(?:had|has|have|did|was|were) (?:\w+ ){{0,3}}?{_CHANGE}",
        r"\bchangelog\b",
        r"\btimeline\b",
        r"\bevents\b",
        r"\bany(?:thing)? (?:new|chang\w+)\b",
        r"\bwhat differs\b",
        r"\b(?:what|which \w+) (?:\w+ )?(?:came|come|went|got|was put|were put|landed|slipped) in(?:to)?\b",
        r"\bwhat (?:\w+ ){0,4}(?:pick(?:ed)?|bring|brought|get) (?:\w+ )?(?:up|in|along|with)\b",
        r"\bwhat (?:\w+ )?changes\b",
        r"\bcommits?\b.*\b(?:before|between|since|until|prior|after|in force|around)\b",
    ),
    Kind.SIMILAR: (
        r"\b(similar|like this|before\?|ever (?:seen|had|happen)|seen .*before|happen(?:ed)? before"
        r"|precedent|known issue|already (?:seen|had)|again)\b",
    ),
    Kind.WHEN: (
        r"^\W*(?:and )?(?:since )?when\b",
        r"\b(?:what|which) (?:\w+ )?(?:step|iteration)\b",
        r"\bonset\b",
        r"\bhow long ago\b",
        r"\bwhen (?:did|was|were|does)\b",
    ),
    Kind.WHY: (
        r"\bwhy\b",
        r"\bcaus\w+",
        r"\breasons?\b",
        r"\bexplain\w*",
        r"\bexplanation\b",
        r"\bculprit\b",
        r"\bresponsible\b",
        r"\bbehind\b",
        r"\bhow come\b",
        r"\bto blame\b",
        r"\bat fault\b",
        r"\bbroke\b",
        r"\bbreaks?\b",
        r"\bwhat(?:'s| is| was| went| goes| made| makes)? (?:so )?wrong\b",
        r"\bgo(?:es|ne)? wrong\b",
        r"\bwent wrong\b",
        r"\bsummar\w+",
        r"\btell me about\b",
        r"\bwhat made\b",
        r"\bproblems? with\b",
    ),
    Kind.RUNS: (r"\b(?:which|what|list|show|all|how many)\b (?:\w+ )?(?:all )?(?:the )?(?:runs|trainings|jobs)\b",),
    Kind.STATUS: (
        r"\bstatus\b",
        r"\bgoing\b",
        r"\bdoing\b",
        r"\bstands?\b",
        r"\brunn?ing\b",
        r"\bopen\b",
        r"\bprogress\b",
        r"\bfinish\w*\b",
        r"\bhealthy\b",
        r"\bcomplet\w+\b",
        r"^\W*(?:is|are|was)\b.*\bdone\b",
        r"\bhow far\b",
        r"\bhow long (?:has|did|is|was) (?:it|this|that|the run)\b",
        r"\bcrash\w*\b",
        r"\balive\b",
        r"\bstopped\b",
    ),
    Kind.VALUE: (
        r"\b(value|how (?:high|low|large|big|small|fast|many|much))\b",
        r"\bat (?:step|iteration) \d",
        r"\bplot\b",
        r"\bshow\b",
        r"\blatest\b",
        r"^\W*(?:and )?what(?:'s| is| was| were| are)\b",
        r"\bfinal\b",
        r"\bwhich (?:\w+ )?(?:version|optimi[sz]er|value)\b",
        r"\b(?:highest|lowest|maxim\w+|minim\w+|peak|largest|smallest|best|worst)\b",
        r"\bdid\b.*\b(?:use|used)\b",
        r"\bscores?\b",
    ),
}
