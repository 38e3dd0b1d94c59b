"""What an older database held is found after the upgrade."""

from __future__ import annotations

import psycopg
from older_database import older_database

from context_store import migrate, open_store


def test_texts_of_an_older_database_are_found_after_the_upgrade(postgres_url: str) -> None:
    url = older_database(postgres_url, "before_search", "0004")
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO project (id, path, entry, backend) VALUES ('p', '/p', 'e', 'embedded')")
        connection.execute(
            "INSERT INTO run (id, project_id, name, role, folder, state, message, last_step, created_at)"
            " VALUES ('r', 'p', 'r', 'training', '/r', 'completed', '', 1, now())"
        )
        connection.execute(
            "INSERT INTO timeline_event (run_id, segment, step, kind, title, detail, at)"
            " VALUES ('r', 0, 5, 'config', 'optim.router.lr 1 -> 2', '{\"key\":\"optim.router.lr\"}', now()),"
            " ('r', 0, 5, 'checkpoint', 'checkpoint router', '{}', now())"
        )
        connection.execute(
            "INSERT INTO negative_result (content_key, project_id, claim, intervention, context, expected, observed,"
            " reason_class, reason, evidence, reopen_if, actor, words)"
            " VALUES ('k', 'p', 'the router starves', 'x', '{}', '', 'y', 'z', 'w', '{run:r}', '', 'anna', 'old words')"
        )
    migrate(url)
    with open_store(url) as store:
        kinds = {str(hit.kind): hit.title for hit in store.search.find("router")}
        assert kinds == {"change": "optim.router.lr 1 -> 2", "negative": "the router starves"}
        ((found, _),) = store.negatives.search("starving")
        assert (found.scale, found.observed_effect, found.superseded_by) == ("", None, None)
