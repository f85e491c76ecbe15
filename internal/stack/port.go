package stack

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"syscall"
)

var errPortTaken = errors.New("another process has taken the port")

// Ports of servers are below those that Linux (from 32768) and macOS (from 49152) give
// to outgoing connections: one of these could have the port of a server that is down,
// which then would not start again.
const (
	minPort = 20000
	endPort = 32768
)

// portTries is far more than it takes to find a port that nobody listens on.
const portTries = 1000

// freePorts returns ports of 127.0.0.1 that nobody listens on. Each stays open
// until all are found, so that they differ.
func freePorts(n int) ([]int, error) {
	var ports []int
	var err error
	for range portTries {
		if len(ports) == n {
			return ports, nil
		}
		port := minPort + rand.N(endPort-minPort)
		var l net.Listener
		if l, err = net.Listen("tcp4", local(port)); err == nil {
			defer l.Close()
			ports = append(ports, port)
		}
	}
	return nil, fmt.Errorf("find %d free ports: %w", n, err)
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// lostPort reports whether a server that has ended could not listen on addr, because
// somebody else did: by its log, and in case that is in words of another language, by
// trying, though the port may be free again.
func lostPort(log []byte, addr string) bool {
	if strings.Contains(strings.ToLower(string(log)), syscall.EADDRINUSE.Error()) {
		return true
	}
	l, err := net.Listen("tcp4", addr)
	if err == nil {
		l.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE)
}
