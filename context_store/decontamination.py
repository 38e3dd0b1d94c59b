"""Which documents of a corpus share n-grams with registered benchmarks (R801-8.9), kept as a report a benchmark."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from context_store.canonical import content_hash
from context_store.corpora import KINDS, Corpus
from context_store.database import Database
from context_store.models import BenchmarkItemRow, BenchmarkRow, DecontaminationRow
from context_store.overlaps import Overlaps, words
from context_store.records import Benchmark, Decontamination, Leak, Unread
from context_store.redaction import redact
from contracts.errors import LogFormatError, NotFound, UserInputError

N = 8
MAX_LEAKS = 1000
MAX_UNREAD = 1000
_ITEMS_A_TIME = 5000


class Benchmarks:
    """`store.benchmarks`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def register(self, benchmark_id: str, title: str, items: Corpus, owner: str) -> Benchmark:
        """Its items are the documents of a corpus. Idempotent; other items under a known id are refused.

        Raises UserInputError for a blank owner, no items, an item without words, or other items than before, and
        LogFormatError for a line that is no item: a benchmark is whole or it is not registered.
        """
        found = list(items.documents())
        if items.num_bad or items.unread:
            fault = _first_fault(items)
            raise LogFormatError(f"benchmark '{benchmark_id}': {fault}", remedy="give text files or JSON lines")
        empty = [key for key, text in found if not words(text)]
        if not owner.strip() or not found or empty:
            what = f"item {empty[0]} has no words" if empty else "no items" if owner.strip() else "no owner"
            raise UserInputError(f"benchmark '{benchmark_id}': {what}", remedy="give its questions, and an owner")
        values = {
            "title": redact(title),
            "sha256": content_hash(found),
            "num_items": len(found),
            "owner": owner.strip(),
        }
        values |= {"origin": redact(str(items.path)), "at": self._database.clock()}
        rows = [{"benchmark_id": benchmark_id, "key": key, "text": _storable(redact(text))} for key, text in found]
        with self._database.begin() as connection:
            put = insert(BenchmarkRow).values(id=benchmark_id, **values).on_conflict_do_nothing()
            if connection.execute(put.returning(BenchmarkRow.id)).first() is not None:
                connection.execute(insert(BenchmarkItemRow), rows)
        stored = self.get(benchmark_id)
        if stored.sha256 != values["sha256"]:
            raise UserInputError(
                f"benchmark '{benchmark_id}' is registered with other items",
                remedy="give a new version its own id, for instance NAME-v2: scores and reports refer to this one",
            )
        return stored

    def get(self, benchmark_id: str) -> Benchmark:
        """Raises NotFound."""
        with self._database.begin() as connection:
            query = sa.select(BenchmarkRow.__table__).where(BenchmarkRow.id == benchmark_id)
            row = connection.execute(query).one_or_none()
        if row is None:
            raise NotFound(f"no benchmark '{benchmark_id}'", remedy="`lathe data benchmarks` lists those registered")
        return Benchmark(**row._mapping)

    def list(self) -> builtins.list[Benchmark]:
        """By id."""
        with self._database.begin() as connection:
            rows = connection.execute(sa.select(BenchmarkRow.__table__).order_by(BenchmarkRow.id))
            return [Benchmark(**row._mapping) for row in rows]

    def decontaminate(
        self,
        corpus: Corpus,
        benchmark_ids: Sequence[str],
        *,
        owner: str,
        n: int = N,
        tell: Callable[[int], None] = lambda _: None,
    ) -> builtins.list[Decontamination]:
        """Read the corpus once against all these benchmarks and store one report each. `tell(documents so far)`.

        What cannot be read is left out, and the report says what. Raises NotFound for an unknown benchmark,
        UserInputError for a corpus without documents.
        """
        searches = [_Search(self.get(each), Overlaps(self._items(each), n)) for each in benchmark_ids]
        num_documents = 0
        for name, text in corpus.documents():
            num_documents += 1
            clean = redact(text)  # as the items are, or one with an address in it would never be found
            for search in searches:
                search.read(name, clean)
            tell(num_documents)
        if not num_documents:
            fault = f": {_first_fault(corpus)}" if corpus.bad or corpus.unread else ""
            raise UserInputError(f"{corpus.path} has no documents{fault}", remedy=f"give {KINDS}")
        found = [search.report(corpus, num_documents, owner, self._database.clock()) for search in searches]
        return [self._store(each) for each in found]

    def reports(self, benchmark_id: str | None = None) -> builtins.list[Decontamination]:
        """Newest first."""
        query = _REPORT.order_by(DecontaminationRow.id.desc())
        if benchmark_id is not None:
            query = query.where(DecontaminationRow.benchmark_id == benchmark_id)
        with self._database.begin() as connection:
            return [_report(row._mapping) for row in connection.execute(query)]

    def _items(self, benchmark_id: str) -> Iterator[tuple[str, str]]:
        query = sa.select(BenchmarkItemRow.key, BenchmarkItemRow.text).where(
            BenchmarkItemRow.benchmark_id == benchmark_id
        )
        with self._database.begin() as connection:
            rows = connection.execution_options(yield_per=_ITEMS_A_TIME).execute(query.order_by(BenchmarkItemRow.key))
            yield from ((row.key, row.text) for row in rows)

    def _store(self, found: Decontamination) -> Decontamination:
        """Idempotent by content."""
        names = Decontamination.__dataclass_fields__.keys() - {"id", "leaks", "unread"}
        values: dict[str, Any] = {name: getattr(found, name) for name in sorted(names)}
        values |= {"matches": [asdict(leak) for leak in found.leaks], "unread": [asdict(each) for each in found.unread]}
        key = content_hash({name: value for name, value in values.items() if name not in ("at", "owner")})
        with self._database.begin() as connection:
            connection.execute(insert(DecontaminationRow).values(content_key=key, **values).on_conflict_do_nothing())
            return _report(connection.execute(_REPORT.where(DecontaminationRow.content_key == key)).one()._mapping)


def _first_fault(corpus: Corpus) -> str:
    return corpus.bad[0] if corpus.bad else f"{corpus.unread[0].file}: {corpus.unread[0].reason}"


def _storable(text: str) -> str:
    """Without what text in Postgres cannot hold: NUL and lone surrogates."""
    return text.replace("\0", "").encode("utf-8", "backslashreplace").decode()


class _Search:
    """One benchmark, searched for while a corpus goes by."""

    def __init__(self, benchmark: Benchmark, overlaps: Overlaps) -> None:
        self._benchmark = benchmark
        self._overlaps = overlaps
        self._leaks: list[Leak] = []
        self._leaked_items: set[str] = set()
        self._num_leaking = 0

    def read(self, name: str, text: str) -> None:
        matches = self._overlaps.find(text)
        self._num_leaking += bool(matches)
        for match in matches:
            self._leaked_items.add(match.item)
            share = self._overlaps.share(match)
            leak = Leak(
                document=name, item=match.item, num_ngrams=len(match.ngrams), share=share, example=match.example
            )
            self._leaks.append(leak)
        if len(self._leaks) > 2 * MAX_LEAKS:
            self._leaks = self._largest()

    def report(self, corpus: Corpus, num_documents: int, owner: str, at: float) -> Decontamination:
        return Decontamination(
            corpus=redact(str(corpus.path)),
            corpus_sha256=corpus.sha256,
            benchmark_id=self._benchmark.id,
            n=self._overlaps.n,
            num_documents=num_documents,
            num_leaking_documents=self._num_leaking,
            num_items=self._benchmark.num_items,
            num_leaked_items=len(self._leaked_items),
            num_short_items=self._overlaps.num_short,
            leaks=tuple(self._largest()),
            num_unread=len(corpus.unread),
            unread=tuple(
                Unread(file=redact(each.file), reason=redact(each.reason)) for each in corpus.unread[:MAX_UNREAD]
            ),
            num_bad=corpus.num_bad,
            bad=tuple(_storable(redact(each)) for each in corpus.bad),
            owner=owner,
            at=at,
        )

    def _largest(self) -> list[Leak]:
        return sorted(self._leaks, key=lambda leak: (-leak.share, leak.document, leak.item))[:MAX_LEAKS]


_REPORT = sa.select(*(column for column in DecontaminationRow.__table__.columns if column.key != "content_key"))


def _report(row: sa.RowMapping) -> Decontamination:
    values = dict(row)
    leaks = tuple(Leak(**match) for match in values.pop("matches"))
    unread = tuple(Unread(**each) for each in values.pop("unread"))
    return Decontamination(leaks=leaks, unread=unread, **values)
