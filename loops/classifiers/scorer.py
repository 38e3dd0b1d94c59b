"""A classifier as one Python file that needs numpy and nothing else: for a pipeline on another machine."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import zlib
from collections.abc import Sequence

from loops.classifiers import features, rules
from loops.classifiers.model import Classifier

_MAIN = '''
NAME, POSITIVE = {name!r}, {positive!r}  # of the classifier, and what it finds
SLOPE, OFFSET, BIAS, THRESHOLD = {slope!r}, {offset!r}, {bias!r}, {threshold!r}
DIGEST = {digest!r}
RULES = {rules!r}


def probabilities(texts: Sequence[str]) -> NDArray[np.float64]:
    """Calibrated probability of POSITIVE of each text, (len(texts),)."""
    found, start = columns(texts)
    sums = np.concatenate([[0.0], np.cumsum(_WEIGHTS[found], dtype=np.float64)])
    margins = (sums[start[1:]] - sums[start[:-1]]) / np.sqrt(np.maximum(np.diff(start), 1)) + BIAS
    return decided(texts, RULES, 0.5 * (1.0 + np.tanh(0.5 * (SLOPE * margins + OFFSET))))


def main() -> None:
    """JSON lines with a field `text` on standard input; the same lines with `probability` and `is_positive`."""
    rows = [json.loads(line) for line in sys.stdin if line.strip()]
    for begin in range(0, len(rows), 1000):
        batch = rows[begin : begin + 1000]
        for row, probability in zip(batch, probabilities([row["text"] for row in batch]).tolist()):
            print(json.dumps({{**row, "probability": probability, "is_positive": probability >= THRESHOLD}}))


_WEIGHTS = np.frombuffer(
    zlib.decompress(base64.b85decode(
        "{weights}"
    )), np.float16
).astype(np.float32)

if __name__ == "__main__":
    main()
'''


def digest(model: Classifier, ruled: Sequence[rules.Rule]) -> str:
    """SHA-256 of everything that decides a score: that of the model, and of the rules above it where there are any."""
    if not ruled:
        return model.digest
    listed = json.dumps([model.digest, [[list(words), positive] for words, positive in ruled]])
    return hashlib.sha256(listed.encode()).hexdigest()


def source(model: Classifier, *, name: str, positive: str, ruled: Sequence[rules.Rule] = ()) -> str:
    """The file's text. It scores bit for bit as `model` with the rules does; `positive` names the class it finds."""
    body = inspect.getsource(features)
    head, _, rest = body.partition("from __future__ import annotations\n")
    imports = "from __future__ import annotations\n\nimport base64\nimport json\nimport re\nimport sys\nimport zlib\n"
    known = digest(model, ruled)
    title = f'"""A text classifier, made by Lathe; {known[:12]}.\n\n'
    weights = base64.b85encode(zlib.compress(model.weights.tobytes(), 9)).decode()
    numbers = {"slope": model.slope, "offset": model.offset, "bias": model.bias, "threshold": model.threshold}
    main = _MAIN.format(**numbers, digest=known, name=name, positive=positive, weights=weights, rules=tuple(ruled))
    above = inspect.getsource(rules)
    above = "\n\n" + above[above.index("Rule = ") :]
    return title + head.removeprefix('"""') + imports + rest.lstrip("\n") + above + main
