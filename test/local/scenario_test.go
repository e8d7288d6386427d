package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"karpenter/internal/local/scenario"
)

const workload = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: played
spec:
  replicas: 0
  selector: {matchLabels: {app: played}}
  template:
    metadata: {labels: {app: played}}
    spec:
      tolerations: [{operator: Exists}]
      containers: [{name: pause, image: pause}]
`

func play(t *testing.T, text string) error {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"workload.yaml": workload, "script.txt": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script, err := scenario.Read(filepath.Join(dir, "script.txt"))
	if err != nil {
		t.Fatal(err)
	}
	return cluster.Play(t.Context(), script)
}

func TestScenarioIsPlayed(t *testing.T) {
	t.Run("to its end", func(t *testing.T) {
		err := play(t, `
			apply workload.yaml
			at 0s scale deployment played 3   # onto the system node
			wait pods-bound 60s
			wait pods-running 60s
			expect pods == 3
			expect cost < 0.001
			fault error action=ec2:CreateFleet code=InternalError status=500 percent=20
			stock type=m5.* zone=* capacityType=spot count=0
			clear faults
			clear stock
			show pods
			kubectl delete deployment played
			wait pods == 0 60s
		`)
		if err != nil {
			t.Error(err)
		}
	})
	for name, c := range map[string]struct{ script, want string }{
		"an expectation that does not hold": {"expect nodes >= 1000", "script.txt:1: expect nodes >= 1000: not so: nodes is 0"},
		"a condition that does not come":    {"\nwait nodes >= 1000 100ms", "script.txt:2: "},
		"what the AWS simulator refuses":    {"fault nonsense", "refused"},
		"more instances than there are":     {"terminate 1000", "there are only"},
		"kubectl that fails":                {"kubectl get nonsense", "kubectl"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := play(t, c.script); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}
