-- Load a folder of changes into PostgreSQL: each change once, and a view of the present items.
--
--   $ foldb trigger add lake --table Orders --file lake --from snapshot
--   $ cat data/files/lake/table=Orders/date=*/*.jsonl | psql shop --file load.sql
--
-- Each change is in one file, and changes that were loaded before are skipped: repeat the command with all files or with
-- the new ones. DynamoDB's numbers have up to 38 digits, which `numeric` keeps.

\set ON_ERROR_STOP on
BEGIN;
SET LOCAL client_min_messages = warning;  -- hide the notice that the table exists

CREATE TABLE IF NOT EXISTS changes (
    "table" text NOT NULL,
    keys jsonb NOT NULL,
    number numeric NOT NULL,
    op text NOT NULL,
    old jsonb,
    new jsonb,
    "time" timestamptz NOT NULL,
    PRIMARY KEY ("table", keys, number)
);

CREATE TEMPORARY TABLE arriving (line jsonb) ON COMMIT DROP;

-- CSV whose quote and delimiter are characters that JSON always escapes, so that each line is one unchanged value.
\copy arriving FROM pstdin WITH (FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02')

INSERT INTO changes
SELECT
    line ->> 'table',
    line -> 'keys',
    (line ->> 'number')::numeric,
    line ->> 'op',
    nullif(line -> 'old', 'null'),
    nullif(line -> 'new', 'null'),
    (line ->> 'time')::timestamptz
FROM arriving
ON CONFLICT DO NOTHING;

CREATE OR REPLACE VIEW items AS
SELECT "table", keys, new AS item, "time" AS changed
FROM (SELECT DISTINCT ON ("table", keys) * FROM changes ORDER BY "table", keys, number DESC) AS latest
WHERE new IS NOT NULL;

COMMIT;
