"""The grammar of questions: what an answer has to hold, apart from the situation that the question tells of.

A question falls into sentences that ask and sentences that tell. What asks is matched with forms of English questions,
each of which says which slot an answer fills, and which words name the thing that the slot is about:

  REMEDY   "did X help against Y", "would X have stopped Y", "is it enough to X", "has anybody tried X"
  SUSPECT  "was it X", "could X have done it", "was X ever ruled out", "why isn't it simply X"
  AMOUNT   "how many X", "what learning rate was Y run at", "by how much did X go up"
  DURATION "how long did X last"
  WHO      "who did X"
  NAME     "which X did Y"
  PRESENT  "was X switched on", "do we use X"
  OPEN     anything else: causes, changes, symptoms, fixes ...

What holds the slot's answer is then looked for among what is stored (`answerable`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Slot(StrEnum):
    REMEDY = "remedy"
    SUSPECT = "suspect"
    AMOUNT = "amount"
    DURATION = "duration"
    WHO = "who"
    NAME = "name"
    PRESENT = "present"
    OPEN = "open"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """`asks`: the sentences that ask; `told`: the others; `thing`: what the slot is about, "" for nothing;
    `about`: the situation, which is what tells one case from another: all but the thing.
    """

    slot: Slot
    thing: str
    asks: str
    told: str
    about: str


_AUX = r"(?:is|was|are|were|did|does|do|has|have|had|would|will|can|could|should|might|may)(?:n['’]?t)?"
_DOES = r"(?<!what )(?<!which )(?:is|was|are|were|did|does|do|has|have|had|would|will|can|could|might)(?:n['’]?t)?"
_SOMEBODY = (
    r"(?:they|we|you|i|one|he|she|anyone|anybody|someone|somebody|people|nobody|folks|the (?:team|authors|maintainers))"
)
_OFTEN = (
    r"(?:(?:ever|also|actually|really|perhaps|maybe|simply|just|already|even|once|finally|properly|only|not|still"
    r"|in fact|at all|indeed|seriously|truly)\s+)*"
)
_TRY = (
    r"(?:try|tried|trying|tries|test|tested|testing|attempt(?:ed)?|experiment(?:ed)? with|play(?:ed)? with|explor\w+"
    r"|sweep|swept)"
)
_ACT = (
    r"(?:replac\w+|swap\w*|turn\w*|switch\w*|lower\w*|rais\w+|increas\w+|reduc\w+|rebuil[dt]\w*|restart\w*|re-?r[au]n"
    r"|add\w*|drop\w*|remov\w+|chang\w+|us(?:e|ing)|mov(?:e|ing)|mix\w*|clip\w*|disabl\w+|enabl\w+|freez\w+|reset\w*"
    r"|skip\w*|put\w*|go(?:ing)? back|roll\w* back|keep|kept|train\w*|overlay|look\w*|throw\w*)"
)
_HELP = (
    r"(?:(?:have |been )*(?:help\w*|cur(?:e|ed|es)|fix(?:ed|es)?|solv\w+|stop(?:ped|s)?|prevent\w*|keep|kept|calm\w*"
    r"|rescu\w+|saved|work(?:ed|s)?(?: out)?|suffic\w+|hold|held|bring|brought|buy|bought|even(?:ed)? out|avoid\w*"
    r"|improv\w+|do(?:ne)? (?:any|some)thing|do(?:ne)? the trick|get rid|got rid|mak(?:e|es) (?:a|any) difference"
    r"|made (?:a|any) difference|tam(?:e|ed)|notice|reveal|detect|catch|caught|find|found|show (?!up)|tell)\b)"
)
_GOOD = (
    r"(?:(?:of )?any (?:good|use|help)\b|worth (?:it|a try|doing|trying)|(?:good |really )?enough\b|sufficient"
    r"|an? (?:known |good |real )?(?:fix|cure|remedy|solution)\b|tried\b|tested\b|attempted\b|helpful|useful)"
)
BLAME = (
    r"(?:to blame|responsible|guilty|at fault|innocent|because of|due to|behind|harmless|involved"
    r"|the (?:\w+ )?(?:cause|reason|culprit|fault|problem|trigger)\b|caus\w+|broke|break\b|explain\w*|trigger\w*"
    r"|le(?:a)?d to|(?:have )?done (?:it|this|that)|did (?:it|this|that)\b|do (?:it|this|that)\b|upset"
    r"|messed? up|play\w* a (?:part|role)|matter\w*)"
)
_CLEARED = (
    r"(?:rul(?:ed|e) out|clear(?:ed)?|exclud\w+|exonerat\w+|check(?:ed)?|examin\w+|test(?:ed)?|investigat\w+"
    r"|suspect(?:ed)?|vetted|looked (?:at|into)|dismiss\w*|off the hook)\b"
)
_QUANTITY = (
    r"(?:rate|lr|loss|losses|norm|size|score|accuracy|number|count|temperature|seed|version|factor|coefficient"
    r"|coefficients|cost|time|duration|memory|load|entropy|threshold|value|share|percentage|fraction|throughput|speed"
    r"|perplexity|price|budget|decay|dimension|width|depth|bandwidth|per second|points|bleu|mmlu|hours|epsilon|beta\d?"
    r"|ratio|degree|precision|length|power|tflops|flops|vio|gradient|lrs|hostname|address)"
)
_CUT = re.compile(
    r"\s+(?:for|against|on|in|about|when|while|instead|by|with|during|from|after|before|at|to|where|that|which|who|if"
    r"|as|since|because|so|and|or|but|over|under|between|until|versus|than|once|without|alone|too|either|in the"
    r"|came|comes|stand|stands|stood|need|needed|go|went)\b"
    r"|[?,.;:!()]|\s[-–—]\s|$",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"^(?:the|a|an|some|any|this|that|these|those|its|their|our|my|only|to|out|about|there|chance|no"
    r"|(?:actually |really )?(?:proven|established|clear|certain|true|known) that)\s+",
    re.IGNORECASE,
)
_ONLY_ACT = re.compile(rf"{_ACT}(?: back| away)?", re.IGNORECASE)
_NO_THING = frozenset(
    [
        "it",
        "this",
        "that",
        "they",
        "them",
        "those",
        "these",
        "there",
        "one",
        "we",
        "you",
        "i",
        "he",
        "she",
        "anyone",
        "anybody",
        "somebody",
        "someone",
        "for",
        "to",
        "a",
        "an",
        "the",
        "some",
        "any",
        "all",
        "every",
        "each",
        "only",
        "done",
        "true",
        "ok",
        "okay",
        "fine",
        "possible",
        "enough",
        "worth",
        "finished",
        "over",
        "known",
        "normal",
        "real",
        "stable",
        "safe",
        "bad",
        "good",
        "better",
        "everything",
        "something",
        "anything",
        "now",
    ]
)
_NO_SUSPECT = (
    r"(?!(?:done|true|ok|okay|fine|possible|enough|worth|finished|over|known|normal|real|stable|peculiar|safe|bad|good"
    r"|better|proven|established|now|every|all|only|that|still|really over|as|in)\b)"
)

_FORMS: tuple[tuple[Slot, str], ...] = (
    (
        Slot.REMEDY,
        r"\b(?:is|was|would) it (?:\w+ )?(?:be |been |have been )?(?:enough|sufficient|any use) to (?P<thing>.+)",
    ),
    (
        Slot.REMEDY,
        rf"\b(?:can|could)(?:n['’]t)? {_SOMEBODY} (?:have )?{_OFTEN}(?P<thing>{_ACT}\b\s+(?!it\b|that\b|this\b)\S.+)",
    ),
    (
        Slot.REMEDY,
        r"\b(?:re-?r[au]n|repeat\w*|launch\w*) (?:\w+ ){0,3}?(?:again )?with (?P<thing>(?!the same\b)[^?]+)",
    ),
    (Slot.REMEDY, r"\bthe effect of (?P<thing>.+?) (?:on|been)\b"),
    (
        Slot.SUSPECT,
        rf"\b(?:check|look|ask|test|verif|examin)\w* (?:\w+ )?(?:whether|if) (?P<thing>.+?)"
        rf"\s+(?:(?:was|were|is|are|had|has|could|might|did) )?{BLAME}",
    ),
    (Slot.REMEDY, rf"\b{_DOES} {_SOMEBODY} {_OFTEN}{_TRY} (?:out )?(?P<thing>.+)"),
    (
        Slot.REMEDY,
        rf"\b(?:what|which \w+) {_AUX} (?:{_SOMEBODY} )?{_OFTEN}(?:{_TRY}|not work|ruled out) (?:about|with) "
        r"(?P<thing>.+)",
    ),
    (Slot.REMEDY, rf"\b{_DOES} {_SOMEBODY} {_OFTEN}(?P<thing>{_ACT}\b\s+(?!it\b|that\b|this\b)\S.+)"),
    (Slot.REMEDY, r"\bwhat (?:did|does|has) (?P<thing>.+?) (?:do|done|change|bring) (?:for|to|about|against|in|on)\b"),
    (
        Slot.SUSPECT,
        rf"\bwhy (?:is|was|are|were|could|can)(?: it n['’]?t| it not|n['’]?t it|n['’]?t| not)\s+{_OFTEN}"
        rf"(?P<thing>.+?)(?:\s+{BLAME}|\s+that\b|$|\?)",
    ),
    (Slot.SUSPECT, r"^\W*(?:so |and |but |hmm,? |no,? )*why not (?P<thing>.+)"),
    (
        Slot.SUSPECT,
        rf"\b{_DOES} {_SOMEBODY} {_OFTEN}(?:rul\w+ out|exclud\w+|suspect\w*|consider\w*|check\w*|examin\w+|verif\w+) "
        r"(?P<thing>.+?)(?:\s+(?:as|for|in|when)\b|$|\?)",
    ),
    (Slot.SUSPECT, rf"\b{_DOES} {_NO_SUSPECT}(?P<thing>[^,?]+?)\s+{_OFTEN}(?:been |be )?{_OFTEN}{_CLEARED}"),
    (Slot.SUSPECT, rf"^\W*(?P<thing>[^:?]+):\s*{_AUX} (?:it|that|this) .*{_CLEARED}"),
    (Slot.SUSPECT, rf"^\W*(?P<thing>[^:?,]+)[,:] (?:\w+ )?(?:it|that|this) (?:\w+ )?{BLAME}"),
    (Slot.REMEDY, rf"\b{_DOES} {_NO_SUSPECT}(?P<thing>.+?)\s+{_OFTEN}(?:be |been )?{_GOOD}"),
    (
        Slot.REMEDY,
        rf"^\W*(?P<thing>[^:?,-]+?) (?:for|against) [^?]*?[-–,:]+ ?(?:is it |was it )?{_GOOD}",
    ),
    (Slot.SUSPECT, rf"\bany chance (?:that )?(?P<thing>.+?) {BLAME}"),
    (
        Slot.SUSPECT,
        rf"(?:^|(?<=[,;:?] ))\W*(?:so |and |but |hmm,? |or )*{_DOES} (?:it |this |that )?{_OFTEN}(?:be |have been )?"
        rf"(?:due to |because of |caused by )?{_NO_SUSPECT}(?P<thing>[^,?]+?)\s+{_OFTEN}(?:be )?(?:that )?"
        rf"(?:have |has |had )?{BLAME}",
    ),
    (
        Slot.REMEDY,
        rf"(?:^|(?<=[,;:?] ))\W*(?:so |and |but |or )*{_DOES} (?P<thing>.+?)\s+{_OFTEN}{_HELP}",
    ),
    (
        Slot.SUSPECT,
        rf"\b(?:is|was|could|might|may)(?:n['’]?t)? (?:it|this|that)(?: not)? {_OFTEN}(?:be |have been )?"
        rf"(?:due to |because of |caused by )?{_NO_SUSPECT}(?P<thing>.+)",
    ),
    (
        Slot.AMOUNT,
        rf"\bhow (?:many|much) (?!of\b)(?P<thing>(?!{_AUX}\b|if\b).+?)(?=\s+{_AUX}\b|$|\?|\s+there\b)",
    ),
    (
        Slot.AMOUNT,
        rf"\b(?:by )?(?:how much|what factor|how many \w+) {_AUX} (?P<thing>.+?)\s+"
        r"(?:go|get|rise|drop|fall|improv\w+|increas\w+|decreas\w+|change|cost|suffer|lose|raised|lowered|move)\b",
    ),
    (
        Slot.AMOUNT,
        rf"\bhow (?:high|large|big|fast|slow|low|deep|full|wide|hot|strong|often|expensive) {_AUX} (?P<thing>.+)",
    ),
    (
        Slot.DURATION,
        rf"\bhow long {_AUX} (?P<thing>(?!it\b|this\b|that\b|the run\b).+?) (?:take|last|keep|stay|hold|need|remain)\b",
    ),
    (
        Slot.AMOUNT,
        rf"\b(?:what|which)(?:['’]?s| is| was| were| are)? (?:the |its |their |[\w-]+['’]s )?"
        rf"(?P<thing>(?!{_AUX}\b|changed|happened|made|went|wrong)(?:[\w/-]+ ){{0,3}}?{_QUANTITY})"
        rf"(?=\s+(?:of|at|in|for|on|when|after|before|{_AUX}|we|to|with)\b|\?|$)",
    ),
    (
        Slot.NAME,
        r"\bhow (?:well )?(?:does|do|did|is|was) .+? (?:do|perform|score|fare|rank|doing) (?:on|at) (?P<thing>.+)",
    ),
    (
        Slot.REMEDY,
        r"\b(?:ablation|experiment|sweep|trial|study|comparison) (?:with|of|on|for|about|against) (?P<thing>.+?)"
        r"(?:\s+(?:turn|go|went|end|look|show|abandon|was|were)|$|\?)",
    ),
    (Slot.NAME, r"^\W*what (?:\w+ ){0,2}?(?:chang\w+|differ\w*) (?:in|about|with) (?:the|our) (?P<thing>.+)"),
    (Slot.PRESENT, r"\bcompare (?:main|it|that|the run) (?:with|to|against) (?P<thing>.+)"),
    (Slot.WHO, r"^\W*(?:and |so |but )*(?:who|by whom)\b(?! else\b| is to blame\b)(?P<thing>.*)"),
    (Slot.PRESENT, r"\b(?:is|was|are|were) (?P<thing>.+?) (?:switched|turned) (?:on|off)\b"),
    (Slot.PRESENT, r"\b(?:is|was|are|were|do|does|did) (?P<thing>.+?) (?:enabled|disabled|active|in use|used)\b"),
    (Slot.PRESENT, r"^\W*(?:do|does|did) (?:we|they|you) (?:use|have) (?P<thing>.+)"),
    (Slot.NAME, rf"\bwhich (?P<thing>(?!{_AUX}\b|of\b|one\b)[\w-]+(?:\s+[\w-]+(?=\s+{_AUX}\b))?)"),
    (Slot.NAME, rf"\bwhat (?P<thing>(?!{_AUX}\b|if\b|else\b|happen|all\b)[\w-]+(?:\s+[\w-]+)?)(?=\s+{_AUX}\b)"),
)
_COMPILED = tuple((slot, re.compile(form, re.IGNORECASE)) for slot, form in _FORMS)
_SENTENCE = re.compile(r"[^.?!;]*(?:[.](?=\S)[^.?!;]*)*[.?!;]*\s*")
_ASKS = re.compile(
    rf"^\W*(?:hey|hi|hello|ok|okay|so|and|but|or|also|hmm|well|be honest|tl;?dr)?\W*"
    rf"(?:what|why|how|who|whose|which|when|where|whats|{_AUX}|by whom|by how|compare|show|tell|remind|explain|any|seen"
    r"|list)\b",
    re.IGNORECASE,
)


def read(text: str) -> Reading:
    """What is asked for, by the first form that fits what asks."""
    asks, told = _parted(text)
    for slot, form in _COMPILED:
        match = form.search(asks)
        thing = _thing(match["thing"], whole=slot in _ENDED) if match else ""
        if match is None or not thing or thing.lower() in _NO_THING:
            continue
        start = match.start("thing")
        about = f"{told} {asks[:start]} {asks[start:].replace(thing, ' ', 1)}"
        return Reading(slot=slot, thing=thing, asks=asks, told=told, about=" ".join(about.split()))
    return Reading(slot=Slot.OPEN, thing="", asks=asks, told=told, about=text)


_ENDED = (Slot.SUSPECT, Slot.PRESENT, Slot.WHO)  # what follows the thing ended it already


def _parted(text: str) -> tuple[str, str]:
    """Sentences that ask, all where none is marked as one; and the others."""
    sentences = [each.strip() for each in _SENTENCE.findall(text) if each.strip()]
    marked = [each for each in sentences if "?" in each or _ASKS.match(each)]
    chosen = marked or sentences
    return " ".join(chosen), " ".join(each for each in sentences if each not in chosen)


def _thing(text: str, *, whole: bool) -> str:
    """The phrase that a form found, without articles; up to its end, unless it ends there anyway (`whole`)."""
    text = text.strip()
    while (shorter := _OPENING.sub("", text)) != text:
        text = shorter
    if not whole:
        if _CUT.match(f" {text}"):
            return ""
        ends = [match.start() for match in _CUT.finditer(text)]
        first = ends[0] if ends else len(text)
        alone = _ONLY_ACT.fullmatch(text[:first]) is not None  # "moving" says nothing without "to the latest PyTorch"
        text = text[: ends[1] if alone and len(ends) > 1 else first]
    return _LOOSE_END.sub("", text).strip(" \t,.;:?!'\"")


_LOOSE_END = re.compile(r"\s+(?:of|was|is|as|the|a|were|are)$", re.IGNORECASE)
