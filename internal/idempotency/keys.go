// Package idempotency lets a program that does not know whether what it asked for
// was done ask again, without doing it twice.
package idempotency

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/labstack/echo/v4"

	"freshread/internal/auth"
	"freshread/internal/dbroute"
	"freshread/internal/web"
)

// Keys keeps answers by the header Idempotency-Key and the user who sent it.
type Keys struct{ db dbroute.Router }

// NewKeys keeps answers in db.
func NewKeys(db dbroute.Router) *Keys { return &Keys{db} }

const (
	header         = "Idempotency-Key"
	replayedHeader = "Idempotency-Replayed"
	// life is how long an answer is kept: longer than anybody retries.
	life = 24 * time.Hour
)

var keyForm = regexp.MustCompile(`^[!-~]([ -~]{0,253}[!-~])?$`)

// Once runs do in a transaction, and sends its answer. If the request carries a
// key, the answer is kept in the same transaction: whoever asks again gets it
// again, and nothing is done. Of two who ask at once, one does it. The key counts
// for this request alone: another one with it is refused. An error is not kept.
//
// The name is the transaction's, and body what the client has sent.
func (k *Keys) Once(c echo.Context, name string, body any, do func(context.Context) (web.Answer, error)) error {
	ctx := c.Request().Context()
	if !hasKey(c) {
		var answer web.Answer
		err := k.db.Write(ctx, name, func(ctx context.Context, _ *dbroute.Tx) (err error) {
			answer, err = do(ctx)
			return err
		})
		if err != nil {
			return err
		}
		return answer.Send(c)
	}
	e, err := newEntry(c, body)
	if err != nil {
		return err
	}
	run := func(ctx context.Context, tx *dbroute.Tx) error { return e.run(ctx, tx, do) }
	err = k.db.Write(ctx, name, run)
	if !e.claimed && dbroute.IsDuplicateKey(err) {
		err = k.db.Write(ctx, name, run) // another request with the key was under way, and has ended
	}
	if err != nil {
		return err
	}
	if e.replayed {
		c.Response().Header().Set(replayedHeader, "true")
	}
	return e.answer.Send(c)
}

// Refuse returns an error if a request carries a key: for what has an answer that
// must not be kept.
func Refuse(c echo.Context) error {
	if !hasKey(c) {
		return nil
	}
	return web.Explain(web.ErrBadRequest, "Idempotency-Key: the answer holds a secret, which is not kept to be given again. Send the request without a key.")
}

// hasKey reports whether a request carries a key, and be it an empty one, as of a script
// whose variable is not set: that is refused, since it would protect nothing.
func hasKey(c echo.Context) bool { return len(c.Request().Header.Values(header)) > 0 }

// entry is a key and what it stands for.
type entry struct {
	userID            int64
	name, fingerprint string
	answer            web.Answer
	claimed           bool // by this request
	replayed          bool // the answer is another's
}

func newEntry(c echo.Context, body any) (*entry, error) {
	r := c.Request()
	keys := r.Header.Values(header)
	if len(keys) > 1 || !keyForm.MatchString(keys[0]) {
		return nil, web.Explain(web.ErrBadRequest, "Idempotency-Key: want one, of 1 to 255 printable ASCII characters.")
	}
	sent, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("fingerprint: %w", err)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s\n%q\n%s", r.Method, r.URL.Path, r.Header.Values("If-Match"), sent))
	return &entry{
		userID: auth.Current(r.Context()).ID,
		name:   keys[0], fingerprint: hex.EncodeToString(sum[:]),
	}, nil
}

// run looks for the answer, and claims the key before it does anything: the
// unique row makes a second request with the key wait for this transaction.
func (e *entry) run(ctx context.Context, tx *dbroute.Tx, do func(context.Context) (web.Answer, error)) error {
	e.claimed, e.replayed = false, false
	// Nobody else looks after what has expired.
	if _, err := tx.ExecContext(ctx, `DELETE FROM idempotency_keys WHERE user_id = ? AND expires_at < ?`, e.userID, time.Now()); err != nil {
		return err
	}
	if err := e.find(ctx, tx); !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if _, err := tx.ExecContext(ctx, `
		INSERT INTO idempotency_keys (user_id, name, fingerprint, body, expires_at) VALUES (?, ?, ?, '', ?)`,
		e.userID, e.name, e.fingerprint, time.Now().Add(life)); err != nil {
		return err
	}
	e.claimed = true
	var err error
	if e.answer, err = do(ctx); err != nil {
		return err
	}
	return e.keep(ctx, tx)
}

// find takes the answer that was kept. If there is none it is sql.ErrNoRows.
func (e *entry) find(ctx context.Context, tx *dbroute.Tx) error {
	var kept web.Answer
	var fingerprint, body string
	err := tx.QueryRowContext(ctx, `
		SELECT fingerprint, status, location, etag, body FROM idempotency_keys WHERE user_id = ? AND name = ?`, e.userID, e.name).
		Scan(&fingerprint, &kept.Status, &kept.Location, &kept.ETag, &body)
	switch {
	case err != nil:
		return err
	case fingerprint != e.fingerprint:
		return web.Explain(web.ErrInvalid, "Idempotency-Key: this key was used for another request. A new request needs a new key.")
	}
	if body != "" {
		kept.Body = json.RawMessage(body)
	}
	e.answer, e.replayed = kept, true
	return nil
}

func (e *entry) keep(ctx context.Context, tx *dbroute.Tx) error {
	var body []byte
	if e.answer.Body != nil {
		var err error
		if body, err = web.EncodeJSON(e.answer.Body); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `
		UPDATE idempotency_keys SET status = ?, location = ?, etag = ?, body = ? WHERE user_id = ? AND name = ?`,
		e.answer.Status, e.answer.Location, e.answer.ETag, string(body), e.userID, e.name)
	return err
}
