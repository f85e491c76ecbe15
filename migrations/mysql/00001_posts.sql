-- For MySQL and MariaDB. Times are in UTC, which the sessions of dbroute keep. Text
-- is compared and sorted by code point, as by C.UTF-8 of PostgreSQL.

-- +goose Up
CREATE TABLE users (
    id         bigint       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name       varchar(100) NOT NULL,
    email      varchar(254) NOT NULL UNIQUE,
    bio        varchar(500) NOT NULL DEFAULT '',
    created_at datetime(6)  NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE posts (
    id         bigint       NOT NULL AUTO_INCREMENT PRIMARY KEY,
    author_id  bigint,
    title      varchar(200) NOT NULL,
    body       mediumtext   NOT NULL,
    version    integer      NOT NULL DEFAULT 1,
    created_at datetime(6)  NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    updated_at datetime(6)  NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    KEY posts_author_id (author_id),
    FOREIGN KEY (author_id) REFERENCES users (id)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE comments (
    id         bigint      NOT NULL AUTO_INCREMENT PRIMARY KEY,
    post_id    bigint      NOT NULL,
    author_id  bigint,
    body       mediumtext  NOT NULL,
    created_at datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
    KEY comments_post_id (post_id, id),
    KEY comments_author_id (author_id),
    FOREIGN KEY (post_id) REFERENCES posts (id) ON DELETE CASCADE,
    FOREIGN KEY (author_id) REFERENCES users (id)
) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

-- +goose Down
DROP TABLE comments;
DROP TABLE posts;
DROP TABLE users;
