CREATE TABLE stream (
    id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    start TEXT NOT NULL,
    rank INTEGER NOT NULL,
    segment SMALLINT NOT NULL,
    offset_bytes BIGINT NOT NULL,
    CONSTRAINT pk_stream PRIMARY KEY (id),
    CONSTRAINT fk_stream_run_id FOREIGN KEY(run_id) REFERENCES run (id)
);

CREATE INDEX ix_stream_run_id_start ON stream (run_id, start);
