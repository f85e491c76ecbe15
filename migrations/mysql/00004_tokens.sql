-- +goose Up
-- Of a token's secret only the SHA-256 is kept. Without expires_at it does not
-- expire.
CREATE TABLE tokens (
    id           bigint       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    user_id      bigint       NOT NULL,
    name         varchar(100) NOT NULL,
    secret_hash  char(64)     NOT NULL,
    abilities    varchar(40)  NOT NULL,
    created_at   datetime(6)  NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    expires_at   datetime(6),
    last_used_at datetime(6),
    KEY tokens_user_id (user_id, id),
    FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The answers to what programs have written, to be given again if they ask again.
CREATE TABLE idempotency_keys (
    user_id     bigint       NOT NULL,
    name        varchar(255) NOT NULL,
    fingerprint char(64)     NOT NULL,
    status      integer      NOT NULL DEFAULT 0,
    location    varchar(255) NOT NULL DEFAULT '',
    etag        varchar(40)  NOT NULL DEFAULT '',
    body        mediumtext   NOT NULL,
    expires_at  datetime(6)  NOT NULL,
    PRIMARY KEY (user_id, name),
    FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

ALTER TABLE comments ADD COLUMN version integer NOT NULL DEFAULT 1;

-- +goose Down
ALTER TABLE comments DROP COLUMN version;
DROP TABLE idempotency_keys;
DROP TABLE tokens;
