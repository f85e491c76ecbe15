package status

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"freshread/internal/dbroute"
)

// Metrics serves the clusters' counts and lag, and what others collect, in
// Prometheus' format.
func Metrics(clusters []*dbroute.Cluster, others ...prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{clusters})
	registry.MustRegister(others...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// collector asks the clusters when it is scraped, so that nothing is counted
// twice on the way of a read.
type collector struct{ clusters []*dbroute.Cluster }

var (
	accesses = prometheus.NewDesc("freshread_accesses_total",
		"Reads and writes by the server that ran them and why it did.",
		[]string{"cluster", "server", "role", "reason", "kind"}, nil)
	checks = prometheus.NewDesc("freshread_checks_total",
		"Questions to a replica whether it has reached a commit, by outcome.",
		[]string{"cluster", "outcome"}, nil)
	decisions = prometheus.NewDesc("freshread_scope_decisions_total",
		"Decisions where a scope reads, by reason.",
		[]string{"cluster", "reason"}, nil)
	up = prometheus.NewDesc("freshread_server_up",
		"1 if the server is read, 0 if it is down, joining or behind.",
		[]string{"cluster", "server", "role"}, nil)
	lag = prometheus.NewDesc("freshread_replica_lag_seconds",
		"How long ago the primary was where the replica is.",
		[]string{"cluster", "server"}, nil)
	behind = prometheus.NewDesc("freshread_replica_behind",
		"How far the replica is behind the primary, in bytes or transactions.",
		[]string{"cluster", "server", "unit"}, nil)
)

func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{accesses, checks, decisions, up, lag, behind} {
		ch <- d
	}
}

func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, cluster := range c.clusters {
		collectCounts(ch, cluster.Name(), cluster.Counts())
		for _, s := range cluster.Status() {
			collectServer(ch, cluster.Name(), cluster.BehindUnit(), s)
		}
	}
}

func collectCounts(ch chan<- prometheus.Metric, name string, n dbroute.Counts) {
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{name}, labels...)...)
	}
	for _, a := range n.Accesses {
		kind := "read"
		if a.Write {
			kind = "write"
		}
		counter(accesses, a.N, strconv.Itoa(a.ServerID), string(a.Role), string(a.Reason), kind)
	}
	for outcome, n := range n.Checks {
		counter(checks, n, outcome)
	}
	for reason, n := range n.Decisions {
		counter(decisions, n, string(reason))
	}
}

func collectServer(ch chan<- prometheus.Metric, name, unit string, s dbroute.ServerStatus) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{name, strconv.Itoa(s.ID)}, labels...)...)
	}
	isUp := 0.0
	if s.State == dbroute.Up {
		isUp = 1
	}
	gauge(up, isUp, string(s.Role))
	if s.Role == dbroute.Replica {
		gauge(lag, s.Lag.Seconds())
		gauge(behind, float64(s.Behind), unit)
	}
}
