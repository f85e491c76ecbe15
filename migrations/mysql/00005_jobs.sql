-- +goose Up
-- Counts the changes to a post and its comments, so that a summary can say how many
-- of them it includes.
ALTER TABLE posts ADD COLUMN changes bigint NOT NULL DEFAULT 0;

CREATE TABLE post_summaries (
    post_id  bigint       NOT NULL PRIMARY KEY,
    title    varchar(200) NOT NULL,
    comments integer      NOT NULL,
    words    integer      NOT NULL,
    minutes  integer      NOT NULL,
    changes  bigint       NOT NULL,
    made_at  datetime(6)  NOT NULL,
    FOREIGN KEY (post_id) REFERENCES posts (id) ON DELETE CASCADE
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- Jobs that are committed and that the queue does not have yet.
CREATE TABLE job_outbox (
    id         varchar(64)  NOT NULL PRIMARY KEY,
    queue_name varchar(100) NOT NULL,
    kind       varchar(100) NOT NULL,
    args       mediumtext   NOT NULL,
    run_at     datetime(6),
    created_at datetime(6)  NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    KEY job_outbox_created_at (created_at)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- The latest runs: what each saw, on which server, and why there.
CREATE TABLE job_runs (
    id               bigint       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    job_id           bigint       NOT NULL,
    kind             varchar(100) NOT NULL,
    attempt          integer      NOT NULL,
    mode             varchar(20)  NOT NULL,
    server_id        integer      NOT NULL,
    server_role      varchar(20)  NOT NULL,
    reason           varchar(100) NOT NULL,
    waited_ms        bigint       NOT NULL,
    took_ms          bigint       NOT NULL,
    post_id          bigint       NOT NULL,
    title            varchar(200) NOT NULL,
    comments_joined  integer      NOT NULL,
    comments_counted integer      NOT NULL,
    outcome          varchar(500) NOT NULL,
    failed           boolean      NOT NULL,
    started_at       datetime(6)  NOT NULL
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE job_runs;
DROP TABLE job_outbox;
DROP TABLE post_summaries;
ALTER TABLE posts DROP COLUMN changes;
