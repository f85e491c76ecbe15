package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// account is the system user that servers run as and that owns their data.
// The zero account is the user we are.
type account struct {
	credential *syscall.Credential
}

// unprivileged returns our own account or, if we are root, that of the first of the
// named users that there is: the servers refuse to run as root.
func unprivileged(names ...string) (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if errors.As(err, new(user.UnknownUserError)) {
			continue
		}
		if err != nil {
			return account{}, err
		}
		return accountOf(u)
	}
	return account{}, fmt.Errorf("the server refuses to run as root and there is no other user to run it as; "+
		"add one (useradd --system %s) or be an ordinary user", names[0])
}

func accountOf(u *user.User) (account, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	return account{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// command returns a command that the account runs in dir. It gets a session of
// its own: the Ctrl-C that stops us must not reach servers that we stop in order.
func (a account) command(dir, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = dir
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: a.credential}
	return cmd
}

// environment is ours, except for what a developer has set for a database or for the
// language of messages.
func environment() []string {
	env := []string{"LC_ALL=C"}
	for _, v := range os.Environ() {
		if !slices.ContainsFunc([]string{"LC_", "PG", "MYSQL", "MARIADB"}, func(s string) bool { return strings.HasPrefix(v, s) }) {
			env = append(env, v)
		}
	}
	return env
}

// run runs a command to its end, unless ctx has ended before. To cut it short would
// save a second at most, and initdb would leave shared memory behind. An error holds
// what the command printed.
func run(ctx context.Context, cmd *exec.Cmd) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s in %s: %w\n%s", cmd.Path, cmd.Dir, err, out)
	}
	return nil
}

// makePrivateDir makes a folder that nobody but the account can look into.
func (a account) makePrivateDir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return a.take(path)
}

// writeFile writes a file that nobody but the account can read. It is complete when
// it appears, for a server that reads it at that moment.
func (a account) writeFile(path, text string) error {
	draft := path + ".new"
	if err := os.WriteFile(draft, []byte(text), 0o600); err != nil {
		return err
	}
	if err := a.take(draft); err != nil {
		return err
	}
	return os.Rename(draft, path)
}

func (a account) take(path string) error {
	if a.credential == nil {
		return nil
	}
	return os.Lchown(path, int(a.credential.Uid), int(a.credential.Gid))
}
