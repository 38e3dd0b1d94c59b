"""`lathe proposals approve` where nobody looked at anything."""

from __future__ import annotations

from benchmarks.trust_attacks.kit import Kit

VARIANTS = {
    "without a terminal": (("proposals", "approve", "@"), "", 0),
    "with a yes from a pipe": (("proposals", "approve", "@"), "y\n", 0),
    "as JSON": (("proposals", "approve", "@", "--json"), "", 0),
    "an edit that changes nothing": (("proposals", "edit", "@"), "", 0),
    "a name that is none": (("proposals", "approve", "pr-none", "--yes"), "", 0),
    "all of them": (("proposals", "approve", "%", "--yes"), "", 0),
}


def control(kit: Kit) -> bool:
    """With --yes it is approved, and then done."""
    proposal = kit.propose()
    done = kit.cli("proposals", "approve", proposal.id, "--yes", LATHE_ACTOR="honest")
    kit.allowed.approved.append(proposal)
    kit.allowed.deeds.append(proposal)
    kit.request(proposal)
    kit.settle()
    return done.returncode == 0 and kit.is_done(proposal)


def attack(kit: Kit, variant: tuple[tuple[str, ...], str, int]) -> object:
    arguments, stdin, _ = variant
    proposal = kit.propose()
    done = kit.cli(*(proposal.id if each == "@" else each for each in arguments), stdin=stdin)
    kit.request(proposal)
    return done.returncode == 0
