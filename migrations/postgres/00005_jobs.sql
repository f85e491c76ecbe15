-- +goose Up
-- Counts the changes to a post and its comments, so that a summary can say how many
-- of them it includes.
ALTER TABLE posts ADD COLUMN changes bigint NOT NULL DEFAULT 0;

CREATE TABLE post_summaries (
    post_id  bigint       PRIMARY KEY REFERENCES posts (id) ON DELETE CASCADE,
    title    varchar(200) NOT NULL,
    comments integer      NOT NULL,
    words    integer      NOT NULL,
    minutes  integer      NOT NULL,
    changes  bigint       NOT NULL,
    made_at  timestamptz  NOT NULL
);

-- Jobs that are committed and that the queue does not have yet.
CREATE TABLE job_outbox (
    id         varchar(64)  PRIMARY KEY,
    queue_name varchar(100) NOT NULL,
    kind       varchar(100) NOT NULL,
    args       text         NOT NULL,
    run_at     timestamptz,
    created_at timestamptz  NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX job_outbox_created_at ON job_outbox (created_at);

-- The latest runs: what each saw, on which server, and why there.
CREATE TABLE job_runs (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
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
    started_at       timestamptz  NOT NULL
);

-- +goose Down
DROP TABLE job_runs;
DROP TABLE job_outbox;
DROP TABLE post_summaries;
ALTER TABLE posts DROP COLUMN changes;
