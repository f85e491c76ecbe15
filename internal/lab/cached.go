package lab

import (
	"context"
	"net/http"

	"github.com/PuerkitoBio/goquery"

	"freshread/internal/dbroute"
	"freshread/internal/site"
)

var poisonedCache = Experiment{
	Name:     "poisoned-cache",
	Question: "You comment, which forgets the cached number of comments. The next visitor brings it back while the replica is late. How many does the list show, and for how long?",
	Subject:  tally,
	Broken: Side{
		Label: "the number is counted on the replica",
		Setup: func(cfg *site.Config, _ Times) { cfg.Refill = anyReplica{cfg.Cluster} },
	},
	Fixed: Side{
		Label: "it is counted on the primary",
		Setup: byCommitID.Setup,
	},
	Cure: Cure{"internal/cache/remember.go", "fill"},
	Steps: []Step{
		{Do: Visit, By: Other, Broken: oldFromCache, Fixed: oldFromCache},
		{Do: Comment, By: Commenter},
		{Do: Visit, By: Other, Broken: oldFromCache, Fixed: newFromCache},
		{Do: Visit, By: Commenter, Broken: oldFromCache, Fixed: newFromCache},
		{Do: AwaitApplied},
		{Do: Visit, By: Commenter, Broken: oldFromCache, Fixed: newFromCache},
	},
}

// The cache itself is read on the primary whatever it holds.
var (
	oldFromCache = Want{Shows: Old, Role: dbroute.Primary, Reason: dbroute.PrimaryOnly}
	newFromCache = Want{Shows: New, Role: dbroute.Primary, Reason: dbroute.PrimaryOnly}
)

// anyReplica reads a replica whoever asks, also who asks for the primary.
type anyReplica struct{ *dbroute.Cluster }

func (r anyReplica) Read(_ context.Context, name string, fn func(dbroute.Querier) error) error {
	ctx, scope := r.NewScope(context.Background())
	scope.RouteAnywhere(dbroute.Marker{})
	return r.Cluster.Read(ctx, name, fn)
}

// readCached takes the number of comments from a list, and where it was cached.
func (o *Observation) readCached(page *goquery.Document, subject Subject) error {
	o.Method, o.Label = http.MethodGet, subject.Label
	o.Value = page.Find(subject.Selector).AttrOr("data-comments", "")
	return o.readServer(page.Find(`[data-cache="` + subject.Read + `"]`).First())
}
