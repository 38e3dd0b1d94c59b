"""`lathe up` and `lathe down`: API, worker and UI as processes of their own, on loopback, over one database.

    processes   pid files that survive reuse of numbers; start, look, stop
    ports       free or configured ports
    api         python -m control_plane.services.api PORT
    worker      python -m control_plane.services.worker
    cluster     up() and down()

The embedded Postgres has no process of its own here: it runs as long as somebody uses it (wiring.embedded_database).
"""
