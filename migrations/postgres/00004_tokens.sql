-- +goose Up
-- Of a token's secret only the SHA-256 is kept. Without expires_at it does not
-- expire.
CREATE TABLE tokens (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    user_id      bigint       NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name         varchar(100) NOT NULL,
    secret_hash  char(64)     NOT NULL,
    abilities    varchar(40)  NOT NULL,
    created_at   timestamptz  NOT NULL DEFAULT CURRENT_TIMESTAMP,
    expires_at   timestamptz,
    last_used_at timestamptz
);
CREATE INDEX tokens_user_id ON tokens (user_id, id);

-- The answers to what programs have written, to be given again if they ask again.
CREATE TABLE idempotency_keys (
    user_id     bigint       NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name        varchar(255) NOT NULL,
    fingerprint char(64)     NOT NULL,
    status      integer      NOT NULL DEFAULT 0,
    location    varchar(255) NOT NULL DEFAULT '',
    etag        varchar(40)  NOT NULL DEFAULT '',
    body        text         NOT NULL,
    expires_at  timestamptz  NOT NULL,
    PRIMARY KEY (user_id, name)
);

ALTER TABLE comments ADD COLUMN version integer NOT NULL DEFAULT 1;

-- +goose Down
ALTER TABLE comments DROP COLUMN version;
DROP TABLE idempotency_keys;
DROP TABLE tokens;
