"""What several packages must agree on. Standard library only, no behaviour beyond encoding and checking.

errors    the LatheError tree
enums     verdicts, scopes, cause kinds, effect kinds, states, roles
names     the series-name grammar
evidence  references to the exact slice a statement rests on
events    what a training writes into its run folder
backend   the seam through which a training is run
"""
