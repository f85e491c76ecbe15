package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// sweep removes the folders in parent whose owner was killed before it could, and
// ends the servers that still run in them. Sweeps may run at once: a folder falls
// to the one that gets its lock.
func sweep(ctx context.Context, parent string) error {
	locks, err := fs.Glob(os.DirFS(parent), "*/"+lockName)
	if err != nil {
		return err
	}
	for _, lock := range locks {
		path := filepath.Join(parent, filepath.Dir(lock))
		if err := sweepFolder(ctx, path); err != nil {
			return fmt.Errorf("remove stray %s: %w", path, err)
		}
	}
	return nil
}

func sweepFolder(ctx context.Context, path string) error {
	name := filepath.Join(path, lockName)
	if !isOurs(name) {
		return nil
	}
	lock, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // its owner has just removed it
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	free, err := tryLock(lock)
	if err != nil || !free {
		return err
	}
	return removeStray(ctx, path)
}

// isOurs reports whether a file is one that this user has made. In a folder for
// everybody others can make files of the same name.
func isOurs(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode().IsRegular() && info.Sys().(*syscall.Stat_t).Uid == uint32(os.Geteuid())
}

func removeStray(ctx context.Context, path string) error {
	dirs, err := serverDirs(path)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := killServer(ctx, dir); err != nil {
			return err
		}
	}
	return removeFolder(path)
}
