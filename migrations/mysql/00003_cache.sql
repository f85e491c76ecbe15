-- +goose Up
-- Times are microseconds since 1970 by this database's clock, so that one text of
-- a statement can add to them on every engine.

-- See package cache. An entry without content and amount holds nothing, and its
-- version is what it is there for.
CREATE TABLE cache_entries (
    name       varchar(200) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    version    bigint NOT NULL,
    content    mediumblob,
    amount     bigint,
    expires_at bigint NOT NULL,
    INDEX cache_entries_expires_at (expires_at)
);

-- See cache.Limiter. The name is the limit's and a hash of whom it limits.
CREATE TABLE rate_limits (
    name       varchar(120) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    free_at    bigint NOT NULL,
    retry_in   bigint NOT NULL,
    INDEX rate_limits_free_at (free_at)
);

-- +goose Down
DROP TABLE rate_limits;
DROP TABLE cache_entries;
