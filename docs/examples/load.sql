-- A folder of changes as tables of PostgreSQL: each change once, and the items as they are after them.
--
--   $ foldb trigger add lake --table Orders --file lake --from snapshot
--   $ cat data/files/lake/table=Orders/date=*/*.jsonl | psql shop --file load.sql
--
-- Each change stands in one file, and one that was loaded before is passed over: run it as often as you like, with all
-- files or with those that are new. A number of DynamoDB's has up to 38 digits, as `numeric` has.

\set ON_ERROR_STOP on
BEGIN;
SET LOCAL client_min_messages = warning;  -- that the table is there already is nothing new

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

-- As CSV whose quotation mark and delimiter are characters that JSON has only escaped: a line is one value, as it is.
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
