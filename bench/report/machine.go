package report

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Machine is where and when something was measured.
type Machine struct {
	CPU     string
	Cores   int
	OS      string
	Go      string
	Date    string   // 2006-01-02
	Servers []string // with their versions
}

// ThisMachine describes the one that this runs on.
func ThisMachine() Machine {
	return Machine{CPU: cpu(), Cores: runtime.NumCPU(), OS: osName(), Go: runtime.Version(), Date: time.Now().UTC().Format(time.DateOnly)}
}

func (m Machine) String() string {
	text := fmt.Sprintf("%s, %d cores, %s, %s, %s", m.CPU, m.Cores, m.OS, m.Go, m.Date)
	if len(m.Servers) > 0 {
		text += "; " + strings.Join(m.Servers, ", ")
	}
	return text
}

func cpu() string {
	if name := field("/proc/cpuinfo", "model name", ":"); name != "" {
		return name
	}
	if out, err := exec.Command("sysctl", "-n", "machdep.cpu.brand_string").Output(); err == nil {
		return strings.TrimSpace(string(out))
	}
	return "unknown CPU (" + runtime.GOARCH + ")"
}

func osName() string {
	if name := field("/etc/os-release", "PRETTY_NAME", "="); name != "" {
		return strings.Trim(name, `"`)
	}
	return runtime.GOOS
}

// field returns a value of a file of lines that each have a name and a value, or "".
func field(file, name, separator string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, found := strings.Cut(lines.Text(), separator)
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
