package lab

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"freshread/internal/dbroute"
	"freshread/internal/site"
	"freshread/internal/tokens"
)

var tokenAtOnce = Experiment{
	Name:     "new-token",
	Question: "A program gets a token and uses it at once, while the replica is late. What is it told?",
	Subject:  newToken,
	Broken: Side{
		Label: "tokens are looked up on the replica",
		Setup: func(cfg *site.Config, _ Times) {
			cfg.Strategy = site.None
			cfg.Router = replicaOnly{cfg.Cluster}
		},
	},
	Fixed: Side{
		Label: "tokens are looked up on the primary where the replica does not know them",
		Setup: byCommitID.Setup,
	},
	Cure:  Cure{"internal/tokens/authenticate.go", "find"},
	Steps: tokenSteps(MakeToken),
}

var userAtOnce = Experiment{
	Name:     "new-user",
	Question: "A program makes an account and its first token in one call, and uses the token at once, while the replica is late. What is it told?",
	Subject:  newToken,
	Broken:   tokenAtOnce.Broken,
	Fixed:    tokenAtOnce.Fixed,
	Cure:     tokenAtOnce.Cure,
	Steps:    tokenSteps(SignUp),
}

// tokenSteps use a token as soon as it is there.
func tokenSteps(get Action) []Step {
	return []Step{
		{Do: get, By: Client},
		{Do: Visit, By: Client, Broken: oldFromReplica, Fixed: sharedOnPrimary},
		{Do: Visit, By: Client, Broken: oldFromReplica, Fixed: sharedOnPrimary},
		{Do: AwaitApplied},
		{Do: Visit, By: Client, Broken: newFromReplica, Fixed: newFromReplica},
	}
}

var ownWriteByAPI = Experiment{
	Name:     "api-client",
	Question: "A program without cookies saves a new title and reads it back, tells another service, and its user opens the page. Which title do they get?",
	Subject:  title,
	Broken:   noRouting.Broken,
	Fixed: Side{
		Label: "the user's commit ID is kept with the user, and goes with the news as Commit-Id",
		Setup: byCommitID.Setup,
	},
	Cure: Cure{"internal/auth/guard.go", "WriteFor"},
	Steps: []Step{
		{Do: Visit, By: Client, Broken: oldFromReplica, Fixed: beforeTheSave},
		{Do: Save, By: Client},
		{Do: Visit, By: Client, Broken: oldFromReplica, Fixed: untilApplied},
		{Do: Visit, By: Service, Broken: oldFromReplica, Fixed: untilApplied},
		{Do: Visit, Broken: oldFromReplica, Fixed: untilApplied},
		{Do: AwaitApplied},
		{Do: Visit, By: Client, Broken: newFromReplica, Fixed: onceApplied},
		{Do: Visit, By: Service, Broken: newFromReplica, Fixed: onceApplied},
	},
}

var agentInDoubt = Experiment{
	Name:     "agent",
	Question: "An agent publishes a post, looks whether it is there, and publishes it again if not. Does it doubt its own write, and how many posts does it leave?",
	Subject:  agentsPost,
	Broken: Side{
		Label: "Read-Consistency: eventual", Consistency: "eventual",
		Setup: byCommitID.Setup,
	},
	Fixed: Side{
		Label: "Read-Consistency: session", Consistency: "session",
		Setup: byCommitID.Setup,
	},
	Cure: Cure{"internal/web/consistency.go", "Consistency"},
	Steps: []Step{
		{Do: Act, By: Agent},
		{Do: Visit, By: Agent, Broken: oldFromReplica, Fixed: untilApplied},
		{Do: ActIfInDoubt, By: Agent},
		{Do: Visit, By: Agent, Broken: oldFromReplica, Fixed: untilApplied},
		{Do: AwaitApplied},
		{Do: Visit, By: Agent, Broken: newFromReplica, Fixed: onceApplied},
		{Do: Count, By: Agent},
	},
}

// program is a visitor that calls the API. It keeps no cookies.
type program struct {
	token       string // the writer's; empty for none
	consistency string // that it asks for; empty for the usual
	commitID    string // that it was given
	key         string // of what it writes once
	check       string // path of what it wrote, which it then looks for
	doubts      bool   // it has looked, and not found it
}

// reply is what a program gets.
type reply struct {
	*http.Response
	body []byte
}

// call sends body as JSON, unless it is nil.
func (s *runningSide) call(ctx context.Context, p *program, method, path string, body any) (*reply, error) {
	var content bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&content).Encode(body); err != nil {
			return nil, fmt.Errorf("call %s: %w", path, err)
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, s.origin+path, &content)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", path, err)
	}
	request.Header.Set("Content-Type", "application/json")
	for name, value := range map[string]string{
		"Read-Consistency": p.consistency, "Commit-Id": p.commitID, "Idempotency-Key": p.key,
	} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	if p.token != "" {
		request.Header.Set("Authorization", "Bearer "+p.token)
	}
	if method == http.MethodPut {
		request.Header.Set("If-Match", "*")
	}
	response, err := s.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("call %s: %w", path, err)
	}
	defer response.Body.Close()
	r := &reply{Response: response}
	if r.body, err = io.ReadAll(response.Body); err != nil {
		return nil, fmt.Errorf("call %s: %w", path, err)
	}
	return r, nil
}

// into reads the body of a reply that must be a success.
func (r *reply) into(v any) error {
	if r.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s: %s", r.Request.Method, r.Request.URL.Path, r.Status, r.body)
	}
	if err := json.Unmarshal(r.body, v); err != nil {
		return fmt.Errorf("%s %s: %w", r.Request.Method, r.Request.URL.Path, err)
	}
	return nil
}

// makeToken makes a token of the writer.
func (s *runningSide) makeToken(ctx context.Context) (string, *reply, error) {
	return s.askForToken(ctx, "/api/tokens", map[string]string{"email": s.email, "password": s.password, "device_name": "lab"})
}

// signUp makes an account and its first token.
func (s *runningSide) signUp(ctx context.Context) (string, *reply, error) {
	return s.askForToken(ctx, "/api/signup", map[string]string{
		"name": "Somebody new", "email": rand.Text() + "@example.com", "password": rand.Text(), "device_name": "lab",
	})
}

func (s *runningSide) askForToken(ctx context.Context, path string, fields map[string]string) (string, *reply, error) {
	r, err := s.call(ctx, &program{}, http.MethodPost, path, fields)
	if err != nil {
		return "", nil, err
	}
	var made struct {
		Token string `json:"token"`
	}
	return made.Token, r, r.into(&made)
}

// newToken gives a program the token that ask asks for.
func (s *runningSide) newToken(ctx context.Context, by Visitor, o *Observation, ask func(context.Context) (string, *reply, error)) error {
	token, r, err := ask(ctx)
	if err != nil {
		return err
	}
	s.programs[by].token = token
	s.saw[by] = true
	o.Method, o.Label, o.Value = http.MethodPost, "new token", token[:strings.IndexByte(token, '|')+4]+"…"
	return o.writtenBy(r.Response)
}

// saveByProgram replaces the title. Whoever is given the news is given its commit ID.
func (s *runningSide) saveByProgram(ctx context.Context, by Visitor, o *Observation) error {
	r, err := s.call(ctx, s.programs[by], http.MethodPut, "/api"+s.post, map[string]string{"title": title.New, "body": postBody})
	if err != nil {
		return err
	}
	if err := r.into(&struct{}{}); err != nil {
		return err
	}
	s.programs[Service].commitID = r.Header.Get("Commit-Id")
	s.saw[by], s.saw[Service], s.saw[Writer] = true, true, true // the program is the writer's
	o.Method, o.Label, o.Value = http.MethodPut, title.Label, title.New
	return o.writtenBy(r.Response)
}

// act publishes a post, with a key, so that it can be done again when in doubt.
func (s *runningSide) act(ctx context.Context, by Visitor, o *Observation) error {
	p := s.programs[by]
	if p.key == "" {
		p.key = rand.Text()
	}
	r, err := s.call(ctx, p, http.MethodPost, "/api/posts", map[string]string{"title": p.key, "body": "By an agent."})
	if err != nil {
		return err
	}
	if err := r.into(&struct{}{}); err != nil {
		return err
	}
	p.check = r.Header.Get("Location")
	s.saw[by] = true
	o.Method, o.Label, o.Value = http.MethodPost, "post", p.check
	if r.Header.Get("Idempotency-Replayed") != "" {
		o.Value += ", as before"
	}
	return o.writtenBy(r.Response)
}

// count counts the posts that an agent has published.
func (s *runningSide) count(ctx context.Context, by Visitor, o *Observation) error {
	r, err := s.call(ctx, &program{}, http.MethodGet, "/api/posts?limit=100", nil)
	if err != nil {
		return err
	}
	var list struct{ Posts []struct{ Title string } }
	if err := r.into(&list); err != nil {
		return err
	}
	n := 0
	for _, post := range list.Posts {
		if post.Title == s.programs[by].key {
			n++
		}
	}
	o.Method, o.Label, o.Value = http.MethodGet, "posts", fmt.Sprint(n)
	if n != 1 {
		o.Problem = "there is to be one"
	}
	return o.readBy(r, "posts.Newest")
}

// visitByProgram gets what the experiment is about, from the API.
func (s *runningSide) visitByProgram(ctx context.Context, step Step, o *Observation) error {
	p := s.programs[step.By]
	path := "/api" + s.post
	switch s.subject {
	case newToken:
		path = "/api/me"
	case agentsPost:
		path = p.check
	}
	r, err := s.call(ctx, p, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	o.Method, o.Label, o.Value = http.MethodGet, s.subject.Label, r.Status
	if s.subject == title {
		var post struct{ Title string }
		if err := r.into(&post); err != nil {
			return err
		}
		o.Value = post.Title
	}
	if err := o.readBy(r, s.subject.Read, tokens.WithOwner, "tokens.ByID"); err != nil {
		return err
	}
	p.doubts = o.Value == s.subject.Old
	s.judge(step, o)
	return nil
}

// readBy takes from a response which server a read was by: the first of names that
// there was.
func (o *Observation) readBy(r *reply, names ...string) error {
	timings := r.Header.Get("Server-Timing")
	for _, name := range names {
		for timing := range strings.SplitSeq(timings, `", `) {
			read, desc, _ := strings.Cut(timing, `;dur=`)
			_, desc, _ = strings.Cut(desc, `desc="`)
			parts := strings.SplitN(strings.TrimSuffix(desc, `"`), ", ", 3)
			if read != name || len(parts) != 3 {
				continue
			}
			o.Role, o.Reason = dbroute.Role(parts[1]), parts[2]
			if _, err := fmt.Sscanf(parts[0], "server %d", &o.ServerID); err != nil {
				return fmt.Errorf("%s %s: Server-Timing: %w", r.Request.Method, r.Request.URL.Path, err)
			}
			return nil
		}
	}
	return fmt.Errorf("%s %s: it does not say where %q were read: %q", r.Request.Method, r.Request.URL.Path, names, timings)
}
