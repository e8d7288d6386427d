package awscontract

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// socketVariable, when set, makes this program an aws command that has itself run by the server of testdata/awsd.py.
const socketVariable = "AWSCONTRACT_SOCKET"

// plainCommands, when set, starts aws anew for every command, as users do. It takes four times as long.
const plainCommands = "KARPENTER_TEST_LONG"

// cliServer starts the server, once for all tests. Its address is empty where the aws command cannot be loaded like that: the
// installer of AWS ships it as a program without Python around it.
var cliServer = sync.OnceValue(func() string {
	path := realCLI()
	if path == "" || os.Getenv(plainCommands) != "" {
		return ""
	}
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	first, _ := bufio.NewReader(io.LimitReader(file, 200)).ReadString('\n')
	python, script := strings.CutPrefix(strings.TrimSpace(first), "#!")
	if !script || !strings.Contains(python, "python") {
		return ""
	}
	dir, err := os.MkdirTemp("", "awsd")
	if err != nil {
		return ""
	}
	address := filepath.Join(dir, "s")
	words := append(strings.Fields(python), filepath.Join("testdata", "awsd.py"), address)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it goes when we do
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return ""
	}
	stopServer = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); strings.TrimSpace(line) != "ready" {
		return ""
	}
	return address
})

// stopServer ends the server, if there is one.
var stopServer = func() {}

// realCLI is the aws command behind a shim of pyenv, which takes as long to start as the command itself.
func realCLI() string {
	path := findCLI()
	if !strings.Contains(path, "/shims/") {
		return path
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "pyenv", "which", "aws").Output(); err == nil {
		return strings.TrimSpace(string(out))
	}
	return path
}

// runRemotely is what the program does in place of tests when it stands for an aws command.
func runRemotely(address string, args []string) int {
	code, err := askServer(address, args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "aws server:", err)
		return 255
	}
	return code
}

func askServer(address string, args []string) (int, error) {
	dir, err := os.Getwd()
	if err != nil {
		return 0, err
	}
	env := map[string]string{}
	for _, pair := range os.Environ() {
		key, value, _ := strings.Cut(pair, "=")
		env[key] = value
	}
	text, err := json.Marshal(map[string]any{"args": args, "env": env, "dir": dir})
	if err != nil {
		return 0, err
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if _, _, err := conn.WriteMsgUnix(append(text, '\n'), syscall.UnixRights(0, 1, 2), nil); err != nil {
		return 0, err
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(answer))
}

// TestCLIServer: a command that is run by the server ends as one that is started does.
func TestCLIServer(t *testing.T) {
	t.Parallel()
	address := cliServer()
	if address == "" {
		t.Skip("aws commands are started one by one here")
	}
	for want, args := range map[int][]string{0: {"--version"}, 252: {"ec2", "no-such-command"}} {
		code, err := askServer(address, args)
		if err != nil || code != want && !(want == 252 && code == 2) { // version 1 says 2 or 252
			t.Errorf("aws %v ends with %d, %v; want %d", args, code, err, want)
		}
	}
}
