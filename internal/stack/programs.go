package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// installedDir returns the folder for an engine that scripts/install has put into a
// folder of its own. Root's is one that other users can enter, since servers refuse
// to run as root.
func installedDir(engine string) string {
	dir := os.Getenv("FRESHREAD_SERVERS")
	if dir == "" && os.Geteuid() == 0 {
		dir = "/var/cache/freshread"
	}
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "" // without a home nothing has been put there
		}
		dir = filepath.Join(cache, "freshread")
	}
	return filepath.Join(dir, engine)
}

func isExecutable(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil
}

// ask runs a program that answers a question.
func ask(ctx context.Context, program string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run %s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

var numbers = regexp.MustCompile(`\d+`)

// majorIn returns the first number in a path or a version.
func majorIn(s string) int {
	n, _ := strconv.Atoi(numbers.FindString(s))
	return n
}

// checkVersion refuses versions older than oldest.
func checkVersion(program, version, oldest string) error {
	if slices.Compare(numbersIn(version), numbersIn(oldest)) < 0 {
		return fmt.Errorf("%s is version %s: want %s or newer", program, version, oldest)
	}
	return nil
}

func numbersIn(version string) []int {
	var all []int
	for _, s := range numbers.FindAllString(version, -1) {
		all = append(all, majorIn(s))
	}
	return all
}
