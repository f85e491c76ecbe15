-- +goose Up
CREATE TABLE users (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       varchar(100) NOT NULL,
    email      varchar(254) NOT NULL UNIQUE,
    bio        varchar(500) NOT NULL DEFAULT '',
    created_at timestamptz  NOT NULL DEFAULT CURRENT_TIMESTAMP
);

CREATE TABLE posts (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    author_id  bigint REFERENCES users (id),
    title      varchar(200) NOT NULL,
    body       text         NOT NULL,
    version    integer      NOT NULL DEFAULT 1,
    created_at timestamptz  NOT NULL DEFAULT CURRENT_TIMESTAMP,
    updated_at timestamptz  NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX posts_author_id ON posts (author_id);

CREATE TABLE comments (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    post_id    bigint      NOT NULL REFERENCES posts (id) ON DELETE CASCADE,
    author_id  bigint      REFERENCES users (id),
    body       text        NOT NULL,
    created_at timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE INDEX comments_post_id ON comments (post_id, id);

-- +goose Down
DROP TABLE comments;
DROP TABLE posts;
DROP TABLE users;
