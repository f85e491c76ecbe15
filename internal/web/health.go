package web

import (
	"fmt"
	"net/http"
	"strings"

	"freshread/internal/dbroute"
)

// Healthz answers as long as the process can answer anything.
func Healthz(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }

// Readyz answers 200 while any server answers: without the primary there are
// still pages to read, without the replicas everything works. The body names
// each server's state.
func Readyz(cluster *dbroute.Cluster) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusServiceUnavailable
		var body strings.Builder
		for _, s := range cluster.Ping(r.Context()) {
			state := "up"
			if s.Err != nil {
				state = "down"
			} else {
				status = http.StatusOK
			}
			fmt.Fprintf(&body, "server %d (%s): %s\n", s.ID, s.Role, state)
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		fmt.Fprint(w, body.String())
	}
}
