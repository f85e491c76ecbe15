package stack

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

var errPortTaken = errors.New("another process has taken the port")

// freePorts returns ports of 127.0.0.1 that nobody listens on. Each stays open
// until all are found, so that they differ.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// portTaken reports whether nobody can listen on addr, because somebody does.
func portTaken(addr string) bool {
	l, err := net.Listen("tcp4", addr)
	if err == nil {
		l.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE)
}
