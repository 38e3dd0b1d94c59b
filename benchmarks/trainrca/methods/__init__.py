"""The methods that are compared. All start from the same findings; what they differ in is how they name a cause.

`lathe` and `bisect` run trainings again, so they work in a Lathe with the case in it. The others read `Facts`.
"""

METHODS = ("lathe", "newest_change", "config_diff", "bisect", "nearest_incident", "tree")
NOT_RUN = {
    "traincheck": "not run: needs traces of its own of sound runs, taken while they train; no adapter",
    "trainscope": "not run: no adapter",
}
