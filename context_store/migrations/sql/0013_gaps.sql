-- What a decontamination did not search: files, and lines or rows without a document.
ALTER TABLE decontamination ADD COLUMN num_unread BIGINT NOT NULL DEFAULT 0, ADD COLUMN unread TEXT NOT NULL DEFAULT '[]',
    ADD COLUMN num_bad BIGINT NOT NULL DEFAULT 0, ADD COLUMN bad TEXT[] NOT NULL DEFAULT '{}';
ALTER TABLE decontamination ALTER COLUMN num_unread DROP DEFAULT, ALTER COLUMN unread DROP DEFAULT,
    ALTER COLUMN num_bad DROP DEFAULT, ALTER COLUMN bad DROP DEFAULT;

-- Without the version of its harness nothing says what a score's missing settings were: it is comparable with no other.
UPDATE score SET identity_key = identity_key || '-' || id WHERE harness_version IS NULL;

-- What was ruled out on no evidence was not ruled out.
UPDATE suspect SET status = 'cannot_tell', reason = reason || ' (ruled out without evidence, so not ruled out)'
    WHERE status = 'refuted' AND cardinality(evidence) = 0;
ALTER TABLE suspect ADD CONSTRAINT exclusion_has_evidence CHECK (status <> 'refuted' OR cardinality(evidence) > 0);
