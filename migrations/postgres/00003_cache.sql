-- +goose Up
-- Times are microseconds since 1970 by this database's clock, so that a statement
-- can add to them in the same words on every engine.

-- See package cache.
CREATE TABLE cache_entries (
    name       varchar(200) COLLATE "C" PRIMARY KEY,
    content    bytea,
    amount     bigint,
    expires_at bigint NOT NULL
);
CREATE INDEX cache_entries_expires_at ON cache_entries (expires_at);

-- Each entry belongs to a slot by a hash of its name. Whoever changes it holds the
-- slot, and the generation counts how often something of the slot was forgotten.
CREATE TABLE cache_slots (
    slot       integer PRIMARY KEY,
    generation bigint NOT NULL
);
INSERT INTO cache_slots (slot, generation)
WITH RECURSIVE slots (slot) AS (SELECT 0 UNION ALL SELECT slot + 1 FROM slots WHERE slot < 999)
SELECT slot, 0 FROM slots;

-- See cache.Limiter. The name is the limit's and a hash of whom it limits.
CREATE TABLE rate_limits (
    name     varchar(120) COLLATE "C" PRIMARY KEY,
    free_at  bigint NOT NULL,
    hit_at   bigint NOT NULL,
    retry_in bigint NOT NULL
);
CREATE INDEX rate_limits_free_at ON rate_limits (free_at);

-- +goose Down
DROP TABLE rate_limits;
DROP TABLE cache_slots;
DROP TABLE cache_entries;
