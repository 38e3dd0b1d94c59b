-- Who answers for a project, a run, a proposal. `unknown`: stored before owners were kept.
ALTER TABLE project ALTER COLUMN owner SET DEFAULT 'unknown';
UPDATE project SET owner = 'unknown' WHERE owner = '';
ALTER TABLE project ADD CONSTRAINT project_has_an_owner CHECK (owner <> '');
ALTER TABLE run ADD COLUMN owner TEXT NOT NULL DEFAULT 'unknown';
UPDATE run r SET owner = p.owner FROM project p WHERE p.id = r.project_id;
ALTER TABLE run ADD CONSTRAINT run_has_an_owner CHECK (owner <> '');
ALTER TABLE proposal ADD COLUMN owner TEXT NOT NULL DEFAULT 'unknown';
UPDATE proposal t SET owner = r.owner FROM investigation i JOIN run r ON r.id = i.run_id WHERE i.id = t.investigation_id;
UPDATE proposal t SET owner = l.actor FROM (
    SELECT DISTINCT ON (subject) subject, actor FROM ledger_entry WHERE action = 'proposed' ORDER BY subject, id
) AS l WHERE t.investigation_id IS NULL AND l.subject = 'proposal:' || t.id AND l.actor <> '';
ALTER TABLE proposal ADD CONSTRAINT proposal_has_an_owner CHECK (owner <> '');

-- When it was found. Of older findings: when their case was opened, else when the run began that shows them.
ALTER TABLE anomaly ADD COLUMN found_at TIMESTAMP WITH TIME ZONE;
UPDATE anomaly a SET found_at = coalesce(
    (SELECT min(i.opened_at) FROM investigation_anomaly m JOIN investigation i ON i.id = m.investigation_id
        WHERE m.anomaly_id = a.id),
    (SELECT r.created_at FROM run r WHERE r.id = a.run_id));
ALTER TABLE anomaly ALTER COLUMN found_at SET NOT NULL;

-- When it was found out. Of older ones: when their case was opened or their entry was imported, else now.
ALTER TABLE negative_result ADD COLUMN at TIMESTAMP WITH TIME ZONE;
UPDATE negative_result n SET at = coalesce(
    (SELECT i.opened_at FROM investigation i WHERE i.id = n.investigation_id),
    (SELECT min(e.at) FROM unnest(n.evidence) AS v JOIN timeline_event e ON 'event:' || e.id = v),
    now());
ALTER TABLE negative_result ALTER COLUMN at SET NOT NULL;

-- `layers 15 and 18` speaks of two layers.
CREATE OR REPLACE FUNCTION search_layers(text TEXT) RETURNS INTEGER[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(array_agg(DISTINCT number[1]::integer), '{}')
    FROM regexp_matches(text, '\mlayers?[._ ](\d{1,6}(?:(?:, and |, ?| and )\d{1,6})*)\M', 'g') AS found,
        regexp_matches(found[1], '\d+', 'g') AS number
$$;
-- Dotted names in prose: configuration keys, symbols, files.
CREATE FUNCTION search_names(text TEXT) RETURNS TEXT[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT coalesce(array_agg(DISTINCT found[1]), '{}')
    FROM regexp_matches(left(text, 2000), '\m([[:alpha:]_]\w*(?:\.\w+)+)\M', 'g') AS found
$$;

DROP VIEW search_event, search_anomaly, search_investigation, search_negative;

CREATE VIEW search_event AS
    SELECT e.id AS event_id, CASE e.kind WHEN 'note' THEN 'note' ELSE 'change' END AS kind,
        e.id::TEXT AS source_key, 'event:' || e.id AS reference, r.project_id, e.run_id, e.step AS step_lo,
        e.step AS step_hi, e.at,
        search_layers(concat_ws(' ', e.title, search_field(e.detail, 'key'), search_field(e.detail, 'series'),
            CASE e.kind WHEN 'note' THEN search_prose(e.detail) END)) AS layers,
        array_remove(ARRAY[search_field(e.detail, 'key'), search_field(e.detail, 'field'),
            search_field(e.detail, 'series')], NULL)
            || CASE e.kind WHEN 'note' THEN search_names(e.title || ' ' || search_prose(e.detail)) ELSE '{}' END AS fields,
        coalesce(search_field(e.detail, 'outcome'), search_field(e.detail, 'status'), '') AS outcome, e.title,
        search_prose(e.detail) AS body
    FROM timeline_event e JOIN run r ON r.id = e.run_id WHERE e.kind <> 'checkpoint';

CREATE VIEW search_anomaly AS
    SELECT a.id AS anomaly_id, 'anomaly' AS kind, a.id::TEXT AS source_key, 'anomaly:' || a.id AS reference,
        r.project_id, a.run_id, a.onset_lo AS step_lo, a.onset_hi AS step_hi, a.found_at AS at,
        search_layers(array_to_string(a.series, ' ')) AS layers, a.series AS fields, a.kind AS outcome,
        a.statement AS title, replace(a.kind, '_', ' ') || ' of ' || array_to_string(a.series[1:20], ', ') AS body
    FROM anomaly a JOIN run r ON r.id = a.run_id;

-- A case begins where its findings do, and speaks of their series.
CREATE VIEW search_investigation AS
    SELECT i.id AS investigation_id, 'investigation' AS kind, i.id AS source_key,
        'investigation:' || i.id AS reference, r.project_id, i.run_id, found.lo AS step_lo, found.hi AS step_hi,
        i.opened_at AS at, search_layers(concat_ws(' ', i.title, i.statement, array_to_string(found.series, ' '))) AS layers,
        coalesce(found.series, '{}') AS fields, coalesce(i.verdict, '') AS outcome, i.title,
        i.statement || CASE WHEN i.cause_kind IS NULL THEN '' ELSE ' Cause: ' || i.cause_kind END AS body
    FROM investigation i JOIN run r ON r.id = i.run_id LEFT JOIN LATERAL (
        SELECT min(a.onset_lo) AS lo, max(a.onset_hi) AS hi, (
            SELECT array_agg(DISTINCT name) FROM investigation_anomaly o JOIN anomaly b ON b.id = o.anomaly_id,
                unnest(b.series) AS name WHERE o.investigation_id = i.id) AS series
        FROM investigation_anomaly m JOIN anomaly a ON a.id = m.anomaly_id WHERE m.investigation_id = i.id
    ) AS found ON TRUE;

-- What did not hold belongs to the run that its context, its case or its first evidence names, at the step it began.
CREATE VIEW search_negative AS
    SELECT n.id AS negative_id, 'negative' AS kind, n.id::TEXT AS source_key, 'negative:' || n.id AS reference,
        n.project_id, coalesce(search_field(n.context, 'run'), i.run_id, shown.run_id) AS run_id,
        coalesce(found.lo, shown.step) AS step_lo, coalesce(found.hi, shown.step) AS step_hi, n.at,
        search_layers(concat_ws(' ', n.claim, n.intervention, n.context, array_to_string(found.series, ' '))) AS layers,
        coalesce(found.series, '{}') || search_names(n.claim || ' ' || n.intervention) AS fields,
        n.reason_class AS outcome, n.claim AS title,
        concat_ws(E'\n', n.intervention, n.observed, n.reason, n.reason_class, n.expected, n.reopen_if, n.scale,
            n.data, n.code_version, left(n.context, 8000)) AS body
    FROM negative_result n
    LEFT JOIN investigation i ON i.id = n.investigation_id
    LEFT JOIN search_investigation c ON c.investigation_id = n.investigation_id
    CROSS JOIN LATERAL (SELECT c.step_lo AS lo, c.step_hi AS hi, c.fields AS series) AS found
    LEFT JOIN LATERAL (
        SELECT e.run_id, e.step FROM timeline_event e WHERE n.evidence[1] ~ '^event:\d{1,18}$'
            AND e.id = substr(n.evidence[1], 7)::bigint
        UNION ALL
        SELECT r.id, NULL FROM run r WHERE starts_with(n.evidence[1], 'run:')
            AND r.id = unquoted(split_part(substr(n.evidence[1], 5), '#', 1))
    ) AS shown ON TRUE;

-- As 0006, and everything that can change later is taken over; what stays as it was is not written again.
DO $do$
DECLARE
    source RECORD;
    columns CONSTANT TEXT := 'kind, source_key, reference, project_id, run_id, step_lo, step_hi, at, layers, fields, outcome';
    later CONSTANT TEXT := 'project_id, run_id, step_lo, step_hi, at, layers, fields, outcome, title, body';
    taken TEXT;
    fill TEXT;
BEGIN
    SELECT string_agg(format('%1$s = EXCLUDED.%1$s', name), ', ') INTO taken FROM unnest(string_to_array(later, ', ')) AS name;
    taken := format('ON CONFLICT (kind, source_key) DO UPDATE SET %s WHERE (%s) IS DISTINCT FROM (%s)', taken,
        'search_text.' || replace(later, ', ', ', search_text.'), 'EXCLUDED.' || replace(later, ', ', ', EXCLUDED.'));
    FOR source IN VALUES
        ('timeline_event', 'search_event', 'v.event_id = n.id'),
        ('anomaly', 'search_anomaly', 'v.anomaly_id = n.id'),
        ('investigation', 'search_investigation', 'v.investigation_id = n.id'),
        ('investigation_anomaly', 'search_investigation', 'v.investigation_id = n.investigation_id'),
        ('negative_result', 'search_negative', 'v.negative_id = n.id')
    LOOP
        fill := format('INSERT INTO search_text (%s, title, body) SELECT %s, left(title, 2000), left(body, 16000) FROM %I v',
            columns, columns, source.column2);
        EXECUTE fill || ' ' || 'WHERE TRUE ' || taken;
        EXECUTE format($f$
            CREATE OR REPLACE FUNCTION %I() RETURNS trigger LANGUAGE plpgsql AS $body$
            BEGIN
                %s WHERE EXISTS (SELECT FROM new_rows n WHERE %s) %s;
                RETURN NULL;
            END $body$ $f$, 'search_follow_' || source.column1, fill, source.column3, taken);
    END LOOP;
END $do$;
CREATE TRIGGER search_inserted AFTER INSERT ON investigation_anomaly REFERENCING NEW TABLE AS new_rows
    FOR EACH STATEMENT EXECUTE FUNCTION search_follow_investigation_anomaly();
