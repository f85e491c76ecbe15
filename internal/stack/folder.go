package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// lockName is the file that makes a folder one of ours.
	lockName = "freshread.lock"

	// dirMode lets the account of the servers pass through our folders to its
	// own, and lets nobody else list them.
	dirMode = 0o711

	// removeLimit is how long the removal of a folder goes on while something
	// still makes files in it.
	removeLimit = 5 * time.Second
)

// folder is where a stack keeps its files. The stack holds a lock on it for life,
// which the kernel takes back even from a process that is killed. So a folder
// whose lock is free has no owner, and servers that run in it are strays.
type folder struct {
	path string
	lock *os.File
}

// parentFolder returns the folder that is to hold those of the stacks. Its path is
// the real one, since servers are told apart by the paths on their command lines.
func parentFolder(dir string) (string, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

func createFolder(parent string) (*folder, error) {
	path, err := os.MkdirTemp(parent, "freshread-")
	if err != nil {
		return nil, err
	}
	lock, err := createLock(path)
	if err == nil {
		err = os.Chmod(path, dirMode)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &folder{path, lock}, nil
}

// createLock makes the lock of a folder and takes it. The file gets its name only
// then: a sweep must not see the lock of a new folder free.
func createLock(path string) (*os.File, error) {
	f, err := os.CreateTemp(path, lockName)
	if err != nil {
		return nil, err
	}
	_, err = tryLock(f)
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(path, lockName))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// tryLock takes the lock of a file, if it is free. Closing the file returns it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func (f *folder) remove() error {
	defer f.lock.Close()
	return removeFolder(f.path)
}

// removeFolder removes the folder of a stack. The lock goes last: as long as files
// are left, a sweep can still find them.
func removeFolder(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeLimit)
	defer cancel()
	dirs, err := serverDirs(path)
	if err != nil {
		return err
	}
	for _, dir := range append(dirs, path) {
		var failed error
		err := poll(ctx, func() (bool, error) {
			failed = os.RemoveAll(dir)
			return failed == nil, nil
		})
		if err != nil {
			return fmt.Errorf("%w: %w", err, failed)
		}
	}
	return nil
}

// serverDirs returns the folders of a stack's servers.
func serverDirs(path string) ([]string, error) {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(path, e.Name()))
		}
	}
	return dirs, nil
}

func makeDir(path string) error {
	if err := os.Mkdir(path, dirMode); err != nil {
		return err
	}
	return os.Chmod(path, dirMode) // whatever the umask took away
}
