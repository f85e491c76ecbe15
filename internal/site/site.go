// Package site puts the features together into one handler, for `app serve`,
// the lab and the tests alike.
package site

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"freshread/internal/auth"
	"freshread/internal/cache"
	"freshread/internal/dbroute"
	"freshread/internal/idempotency"
	"freshread/internal/jobs"
	"freshread/internal/posts"
	"freshread/internal/status"
	"freshread/internal/tokens"
	"freshread/internal/web"
	"freshread/templates"
)

// Strategy is how reads are routed.
type Strategy string

const (
	Commit Strategy = web.StrategyCommit // by the commit ID of the client's last write
	Window Strategy = web.StrategyWindow // by the time since it
	None   Strategy = web.StrategyNone   // not at all
)

// DefaultWindow is longer than a replica is usually behind, which is all that
// can be said of a window.
const DefaultWindow = 6 * time.Second

// UnmarshalText checks the name, for configuration and flags.
func (s *Strategy) UnmarshalText(text []byte) error {
	switch Strategy(text) {
	case Commit, Window, None:
		*s = Strategy(text)
		return nil
	}
	return fmt.Errorf("strategy %q: want commit, window or none", text)
}

// MarshalText makes a Strategy usable with flag.TextVar.
func (s Strategy) MarshalText() ([]byte, error) { return []byte(s), nil }

// Config is what a site needs.
type Config struct {
	Cluster       *dbroute.Cluster
	Cache         *dbroute.Cluster // of the cache and the limits; see cache.OpenCluster
	Log           *slog.Logger
	Strategy      Strategy      // Commit if empty
	Window        time.Duration // for the strategy window; DefaultWindow if zero
	SessionKeys   [][]byte      // see web.NewMarkers
	SecureCookies bool          // cookies over TLS only
	Demo          bool          // the pages explain what to try, and offer accounts and strategies
	ShowReads     bool          // pages and headers tell which servers answered

	// PasswordCost is what a password hash takes; auth.DefaultCost if zero.
	PasswordCost auth.Cost

	// Jobs queues the jobs of the site and works them, if the program runs it; nil:
	// there are none.
	Jobs *jobs.Queue
	// Limits are DefaultLimits where they are zero.
	Limits Limits
	// TrustedProxies are those whose X-Forwarded-For says where a client comes from, and
	// whose X-Forwarded-Proto says whether over TLS.
	TrustedProxies []netip.Prefix

	// Lab adds the pages of package lab, which imports this one; nil: there are none.
	Lab func(*web.Routes, *web.Renderer)

	// Others are further clusters of the program, for /cluster and /metrics.
	Others []*dbroute.Cluster
	// Done ends live pages when the site stops; never if nil.
	Done <-chan struct{}

	// Router is what the stores read and write through; Cluster if nil.
	Router dbroute.Router
	// Refill is what the cache computes through; see cache.Config.
	Refill dbroute.Router
	// Limiter makes what is asked of a limiter; the limiter itself if nil.
	Limiter func(*cache.Limiter) web.Limiter
	// BeforeLoad and AfterLoad run around the loading of the entity that a
	// route names, inside the strategy.
	BeforeLoad, AfterLoad []web.Middleware
}

// Site is the whole application.
type Site struct {
	handler http.Handler
	routes  *web.Routes
}

// New wires a site. It does not connect to the database.
func New(cfg Config) (*Site, error) {
	if cfg.Cache == nil {
		return nil, errors.New("site: no cluster for the cache: cache.OpenCluster opens one")
	}
	if err := cfg.setDefaults(); err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	p, err := newParts(&cfg)
	if err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	e := web.NewEcho(cfg.Log, cfg.Cluster, p.html, cfg.SecureCookies, cfg.TrustedProxies...)
	routes := web.NewRoutes(e)
	if err := p.registerPages(routes); err != nil {
		return nil, fmt.Errorf("site: %w", err)
	}
	p.registerAPI(routes)
	return &Site{handler: web.Handler(cfg.Cluster, e, templates.Files), routes: routes}, nil
}

// parts is what the pages and the API share.
type parts struct {
	*Config
	html        *web.Renderer
	markers     *web.Markers
	cookies     *auth.Cookies
	signer      *tokens.Signer
	once        *tokens.Once
	limits      *auth.Limits
	shownLimits []status.Limit
	guard       *auth.Guard
	users       *auth.Store
	passwords   *auth.Passwords
	posts       *posts.Store
	tokens      *tokens.Store
	people      auth.Demo
	check       *posts.Check
}

func newParts(cfg *Config) (p *parts, err error) {
	p = &parts{Config: cfg}
	if p.html, err = web.NewRenderer(cfg.Cluster, templates.Files, templates.Site{
		Demo: cfg.Demo, ShowReads: cfg.ShowReads, Strategy: string(cfg.Strategy), Window: cfg.Window,
		NoCommitIDs: !cfg.hasCommitIDs(), Lab: cfg.Lab != nil,
	}, cfg.Cache); err != nil {
		return nil, err
	}
	if err := p.newKeyed(); err != nil {
		return nil, err
	}
	cached, err := cache.New(cache.Config{
		Cluster: cfg.Cache, Data: cfg.Router, Refill: cfg.Refill, Log: cfg.Log,
		// What a page has shown must not be unseen on the next, and the cache's numbers
		// are ahead of the replica's.
		Off: cfg.Cluster.Config().Monotonic,
	})
	if err != nil {
		return nil, err
	}
	if p.limits, p.shownLimits, err = cfg.newLimits(); err != nil {
		return nil, err
	}
	p.guard = auth.NewGuard(cfg.Cluster, p.cookies, cfg.Log)
	p.users, p.passwords = auth.NewStore(cfg.Router, cached), auth.NewPasswords(cfg.PasswordCost)
	p.posts, p.tokens = posts.NewStore(cfg.Router, cached, cfg.summariser()), tokens.NewStore(cfg.Router)
	p.people, p.check = cfg.demo(cached)
	p.limits.Published = p.people.Addresses()
	return p, nil
}

// newKeyed makes what signs or encrypts with the session keys.
func (p *parts) newKeyed() (err error) {
	if p.markers, err = web.NewMarkers(p.Cluster, p.Log, p.SessionKeys, p.SecureCookies); err != nil {
		return err
	}
	if p.cookies, err = auth.NewCookies(p.Cluster.Name(), p.SessionKeys, p.SecureCookies); err != nil {
		return err
	}
	if p.signer, err = tokens.NewSigner(p.SessionKeys); err != nil {
		return err
	}
	p.once, err = tokens.NewOnce(p.Cluster.Name(), p.SessionKeys, p.SecureCookies)
	return err
}

// registerPages adds what browsers are for. The order is the point: the strategy
// decides before anything is loaded.
func (p *parts) registerPages(routes *web.Routes) error {
	strategy, choice := p.strategy(routes, p.markers)
	pages := routes.
		With(p.guard.Middleware(), web.Scope(p.Cluster, p.ShowReads, web.PreferByCookie, p.Cache), strategy).
		With(p.BeforeLoad...).
		With(p.guard.Load(p.users))
	people := auth.NewPages(p.users, p.guard, p.cookies, p.passwords, p.limits, p.html, p.people)
	people.Register(pages)
	if p.Demo && p.hasCommitIDs() { // without commit IDs there is no cure to lead to
		(&tour{p.Cluster, people, p.posts, p.limits, choice, p.tourEnd()}).register(pages)
	}
	posts.NewPages(p.posts, p.users, p.limits, p.html, p.check).Register(pages, p.AfterLoad...)
	tokens.NewPages(p.tokens, p.signer, p.once, p.limits, p.html, p.people.Account()).Register(pages)
	if err := p.registerJobs(pages, p.html); err != nil {
		return err
	}
	if p.Lab != nil {
		p.Lab(pages, p.html)
	}
	status.NewPages(status.Config{
		Clusters: append([]*dbroute.Cluster{p.Cluster, p.Cache}, p.Others...),
		Window:   p.Window, Public: p.Demo, Done: p.Done,
		Limits: p.shownLimits, Collectors: p.collectors(),
	}, p.html).Register(pages)
	return nil
}

// registerAPI adds what programs are for. One is known by its token and by nothing
// else: no cookie is heeded here.
func (p *parts) registerAPI(routes *web.Routes) {
	headers := web.NewHeaders(p.markers, string(p.Strategy), p.Window)
	authenticator := tokens.NewAuthenticator(p.Cluster, p.tokens, p.signer, p.guard, p.Log)
	api := routes.
		With(headers.Parse(), web.Scope(p.Cluster, p.ShowReads, nil, p.Cache)).
		With(authenticator.Find(), authenticator.Guard(), headers.Consistency()).
		With(p.BeforeLoad...).
		With(p.guard.Load(p.users))
	mayRead, read, write := tokens.Allow(tokens.Read), tokens.Require(tokens.Read), tokens.Require(tokens.Write)
	auth.RegisterAPI(api.With(read))
	tokens.NewAPI(p.tokens, p.users, p.passwords, p.limits, p.guard, p.signer).Register(api)
	posts.NewAPI(p.posts, p.limits, idempotency.NewKeys(p.Router)).Register(api.With(mayRead), api.With(write), p.AfterLoad...)
}

func (cfg *Config) hasCommitIDs() bool { return cfg.Cluster.Config().NoCommitIDs == "" }

func (cfg *Config) setDefaults() error {
	if cfg.Router == nil {
		cfg.Router = cfg.Cluster
	}
	if cfg.Strategy == "" {
		cfg.Strategy = Commit
	}
	if err := cfg.Strategy.UnmarshalText([]byte(cfg.Strategy)); err != nil {
		return err
	}
	if cfg.Window <= 0 {
		cfg.Window = DefaultWindow
	}
	if noIDs := cfg.Cluster.Config().NoCommitIDs; noIDs != "" && cfg.Strategy == Commit {
		cfg.Log.Warn("reads are routed by the window: there are no commit IDs", "window", cfg.Window, "cause", noIDs)
		cfg.Strategy = Window
	}
	if cfg.PasswordCost == (auth.Cost{}) {
		cfg.PasswordCost = auth.DefaultCost
	}
	return nil
}

// summariser is nil, and not a nil queue, if there are no jobs.
func (cfg *Config) summariser() posts.Summariser {
	if cfg.Jobs == nil {
		return nil
	}
	return cfg.Jobs
}

func (cfg *Config) collectors() []prometheus.Collector {
	if cfg.Jobs == nil {
		return nil
	}
	return cfg.Jobs.Collectors()
}

func (cfg *Config) registerJobs(pages *web.Routes, html *web.Renderer) error {
	if cfg.Jobs == nil {
		return nil
	}
	jobPages, err := jobs.NewPages(cfg.Jobs, html, cfg.Demo)
	if err != nil {
		return err
	}
	jobPages.Register(pages)
	return nil
}

// strategy returns the middleware that routes reads. In a demo it is the one that each
// visitor chooses.
func (cfg *Config) strategy(routes *web.Routes, markers *web.Markers) (web.Middleware, *web.Choice) {
	strategies := web.Strategies(markers, cfg.Window)
	if !cfg.Demo {
		return strategies[string(cfg.Strategy)], nil
	}
	choice := web.NewChoice(strategies, string(cfg.Strategy))
	routes.POST("/strategy", choice.Save)
	return choice.Middleware(), choice
}

// tourEnd is the page that says why.
func (cfg *Config) tourEnd() string {
	if cfg.Lab == nil {
		return "/"
	}
	return "/lab/no-routing"
}

// demo returns what a site that is there to be tried out has on top.
func (cfg *Config) demo(cached *cache.Cache) (auth.Demo, *posts.Check) {
	if !cfg.Demo {
		return auth.Demo{}, nil
	}
	primary := cfg.Cluster.PrimaryOnly("check")
	users := auth.NewStore(primary, cached)
	return auth.Demo{Accounts: demoAccounts(), Check: users}, posts.NewCheck(posts.NewStore(primary, cached, nil), users)
}

// ServeHTTP makes Site an http.Handler.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Routes lists each route with its middleware, outermost first.
func (s *Site) Routes() []web.Route { return s.routes.Table() }
