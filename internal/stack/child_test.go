package stack_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"freshread/internal/stack"
)

const (
	// childDir tells this program that a test runs it a second time, to have its
	// stack in that folder and to be killed or interrupted.
	childDir    = "STACK_TEST_CHILD_DIR"
	childEngine = "STACK_TEST_CHILD_ENGINE"

	saysStarted = "started"
	saysAnswers = "answers"
)

func TestMain(m *testing.M) {
	dir := os.Getenv(childDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := runChild(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// runChild says when its stack runs and, after an interrupt, whether that answers.
func runChild(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	interrupted, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()

	s, err := stack.Start(ctx, options(dir, os.Getenv(childEngine), 0))
	if err != nil {
		return err
	}
	fmt.Println(saysStarted)
	<-interrupted.Done()
	err = s.WaitApplied(ctx)
	if err == nil {
		fmt.Println(saysAnswers)
	}
	return errors.Join(err, s.Close())
}

type child struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

// startChild returns when the child's stack runs.
func startChild(t *testing.T, dir, engine string) child {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(soon(t), program)
	cmd.Env = append(os.Environ(), childDir+"="+dir, childEngine+"="+engine)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // for an interrupt of its own
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	c := child{cmd, bufio.NewScanner(out)}
	if says := c.line(t); says != saysStarted {
		t.Fatalf("the child says %q, want %q", says, saysStarted)
	}
	return c
}

func (c child) line(t *testing.T) string {
	t.Helper()
	c.out.Scan()
	must(t, c.out.Err())
	return c.out.Text()
}

// interrupt does what Ctrl-C in a terminal does: it signals the whole group.
func (c child) interrupt(t *testing.T) {
	t.Helper()
	must(t, syscall.Kill(-c.cmd.Process.Pid, syscall.SIGINT))
}

func (c child) kill(t *testing.T) {
	t.Helper()
	must(t, c.cmd.Process.Kill())
	c.cmd.Wait() // says that it was killed
}
