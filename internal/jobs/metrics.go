package jobs

import "github.com/prometheus/client_golang/prometheus"

func newWaits() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "freshread_job_wait_seconds",
		Help:    "How long runs of jobs waited for a replica to reach the commit that queued them, by why they read where they did.",
		Buckets: []float64{0.001, 0.005, 0.02, 0.1, 0.5, 1, 2, 5},
	}, []string{"kind", "mode", "reason"})
}

// Collectors are the queue's metrics, as of this process.
func (q *Queue) Collectors() []prometheus.Collector {
	return []prometheus.Collector{q.waits, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "freshread_outbox_stalled",
		Help: "1 while committed jobs cannot be relayed to the queue.",
	}, func() float64 {
		if q.Trouble() != "" {
			return 1
		}
		return 0
	})}
}
