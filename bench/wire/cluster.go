package wire

import (
	"net/url"

	"freshread/internal/dbroute"
)

// Through puts a proxy before each server of a cluster.
func Through(cfg dbroute.Config) (dbroute.Config, Proxies, error) {
	var proxies Proxies
	redirect := func(server string) (string, error) {
		u, err := url.Parse(server)
		if err != nil {
			return "", err
		}
		p, err := Listen(u.Host)
		if err != nil {
			return "", err
		}
		proxies = append(proxies, p)
		u.Host = p.Addr()
		return u.String(), nil
	}
	var err error
	if cfg.Primary, err = redirect(cfg.Primary); err != nil {
		return cfg, proxies, err
	}
	direct := cfg.Replicas
	cfg.Replicas = nil
	for _, replica := range direct {
		redirected, err := redirect(replica)
		if err != nil {
			return cfg, proxies, err
		}
		cfg.Replicas = append(cfg.Replicas, redirected)
	}
	return cfg, proxies, nil
}
