package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func TestAWSSimRefusesOtherAddresses(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":0", "10.1.2.3:0", "[::]:0", "example.com:0", "nonsense"} {
		cmd := NewAWSSim()
		cmd.SetArgs([]string{"--listen", listen})
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--listen") {
			t.Errorf("--listen %s gave %v", listen, err)
		}
	}
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0", "localhost:0"} {
		if err := (&awsSim{listen: listen}).checkAddress(); err != nil {
			t.Errorf("--listen %s gave %v", listen, err)
		}
	}
	if err := (&awsSim{listen: "0.0.0.0:0", anywhere: true}).checkAddress(); err != nil {
		t.Errorf("with --listen-anywhere: %v", err)
	}
}

// startAWSSim runs the command and returns its address, its further output and
// a function that ends it.
func startAWSSim(t *testing.T, args ...string) (address string, lines *bufio.Scanner, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	cmd := NewAWSSim()
	cmd.SetArgs(append([]string{"--listen", "127.0.0.1:0"}, args...))
	cmd.SetOut(w)
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.ExecuteContext(ctx)
		w.Close()
	}()
	lines = bufio.NewScanner(r)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "export AWS_ENDPOINT_URL="); ok {
			address = url
		}
		if strings.HasPrefix(lines.Text(), "# Older") {
			break
		}
	}
	stop = func() {
		cancel()
		go func() {
			for lines.Scan() {
			}
		}()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	return address, lines, stop
}

func callSim(t *testing.T, address, form string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=test/20251001/us-west-2/ec2/aws4_request, SignedHeaders=host, Signature=0")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestAWSSimLogsAndKeepsState(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state.json")
	address, lines, stop := startAWSSim(t, "--state", state, "--cluster", "c1=https://c1")
	logged := make(chan string, 1)
	go func() {
		lines.Scan()
		logged <- lines.Text()
	}()
	callSim(t, address, "Action=CreateSecurityGroup&Version=2016-11-15&GroupName=kept&GroupDescription=d")
	if line := <-logged; !strings.Contains(line, "ec2:CreateSecurityGroup kept → ok") {
		t.Errorf("logged %q", line)
	}
	stop()
	address, _, stop = startAWSSim(t, "--state", state, "--quiet")
	defer stop()
	if body := callSim(t, address, "Action=DescribeSecurityGroups&Version=2016-11-15&GroupName.1=kept"); !strings.Contains(body, "<groupName>kept</groupName>") {
		t.Errorf("the group is gone: %s", body)
	}
}
