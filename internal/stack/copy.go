package stack

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// copyDir is where a server keeps a copy of its data, next to that.
const copyDir = "copy"

var errRuns = errors.New("the server runs")

// Save keeps a copy of the data of a server that does not run, in place of an
// earlier one.
func (s *Server) Save(ctx context.Context) error {
	return s.wrap("save", s.copyData(ctx, dataDir, copyDir))
}

// Rebuild puts the copy that Save has kept in place of the data of a server that does
// not run. Started again, the server is an older one at the same address.
func (s *Server) Rebuild(ctx context.Context) error {
	return s.wrap("rebuild", s.copyData(ctx, copyDir, dataDir))
}

func (s *Server) copyData(ctx context.Context, from, to string) error {
	if s.running() {
		return errRuns
	}
	if err := os.RemoveAll(filepath.Join(s.dir, to)); err != nil {
		return err
	}
	a := s.stack.engine.owner()
	if err := a.makePrivateDir(filepath.Join(s.dir, to)); err != nil {
		return err
	}
	return run(ctx, a.command(s.dir, "cp", "-a", filepath.Join(s.dir, from)+"/.", filepath.Join(s.dir, to)))
}
