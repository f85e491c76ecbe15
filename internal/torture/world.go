package torture

import (
	"fmt"
	"strconv"
	"sync"
	"time"
)

// world is what the sessions of a round have in common.
type world struct {
	site  *balancer
	begun time.Time
	round int // from 1

	mu     sync.Mutex
	ops    []*Op
	people []*person
	handed *handed // the latest Commit-Id of a program
}

// person is a user, with every session that is theirs.
type person struct {
	id              int64
	name            string // without the number of the rename
	email, password string

	mu      sync.Mutex
	renames Version
	posts   []int64
	tokens  []*token
	ended   []func() // each tries a log-in or a token that has been ended
}

type token struct {
	id   int64
	text string
}

// handed is a Commit-Id with the write that it covers.
type handed struct {
	commitID string
	by       *Op
}

// number is one that no other round has: what one has written the next still reads.
func (w *world) number(n int) int { return 1000*w.round + n }

func (w *world) now() time.Duration { return time.Since(w.begun) }

// record keeps an operation.
func (w *world) record(o *Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ops = append(w.ops, o)
}

// history returns what was recorded.
func (w *world) history() []Op {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]Op, len(w.ops))
	for i, o := range w.ops {
		all[i] = *o
	}
	return all
}

// answered returns how many operations the site has answered.
func (w *world) answered() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.ops {
		if o.answered() {
			n++
		}
	}
	return n
}

func (w *world) hand(commitID string, by *Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handed = &handed{commitID, by}
}

func (w *world) lastHanded() *handed {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.handed
}

func (p *person) addPost(id int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.posts = append(p.posts, id)
}

// post returns one of the person's posts.
func (p *person) post(pick uint32) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.posts[int(pick)%len(p.posts)]
}

func (p *person) addToken(t *token) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tokens = append(p.tokens, t)
}

func (p *person) addEnded(tryAgain func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = append(p.ended, tryAgain)
}

// takeToken takes one of the person's tokens away, or returns nil.
func (p *person) takeToken(pick uint32) *token {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.tokens) == 0 {
		return nil
	}
	i := int(pick) % len(p.tokens)
	t := p.tokens[i]
	p.tokens = append(p.tokens[:i:i], p.tokens[i+1:]...)
	return t
}

// nextName returns a name with its number.
func (p *person) nextName() (Version, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renames++
	return p.renames, p.nameOf(p.renames)
}

func (p *person) nameOf(n Version) string { return fmt.Sprintf("%s n%d", p.name, n) }

func object(kind string, id int64) Object { return Object(kind + "/" + strconv.FormatInt(id, 10)) }
