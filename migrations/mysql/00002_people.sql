-- +goose Up
ALTER TABLE users
    ADD COLUMN password_hash varchar(255)  NOT NULL DEFAULT '',
    ADD COLUMN role          varchar(20)   NOT NULL DEFAULT 'member',
    ADD COLUMN disabled      boolean       NOT NULL DEFAULT false,
    -- What the user has committed: how often, how many of that the commit ID
    -- covers, the commit ID, and when, in Unix milliseconds. See auth.Guard.
    ADD COLUMN writes        bigint        NOT NULL DEFAULT 0,
    ADD COLUMN covered       bigint        NOT NULL DEFAULT 0,
    ADD COLUMN commit_id     varchar(4000) NOT NULL DEFAULT '',
    ADD COLUMN written_ms    bigint        NOT NULL DEFAULT 0;

-- The key is a hash of what the browser holds, so that what is read here
-- logs nobody in.
CREATE TABLE sessions (
    id         char(64)    NOT NULL PRIMARY KEY,
    user_id    bigint      NOT NULL,
    created_at datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    expires_at datetime(6) NOT NULL,
    KEY sessions_user_id (user_id),
    FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE sessions;
ALTER TABLE users
    DROP COLUMN written_ms,
    DROP COLUMN commit_id,
    DROP COLUMN covered,
    DROP COLUMN writes,
    DROP COLUMN disabled,
    DROP COLUMN role,
    DROP COLUMN password_hash;
