package why

import (
	"encoding/json"
	"testing"
)

func TestP27_Similar(t *testing.T) {
	known := []string{"kubernetes.io/arch", "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"}
	for word, want := range map[string]string{
		"topology.kubernetes.io/zon":       "topology.kubernetes.io/zone",
		"Topology.Kubernetes.io/Zone":      "topology.kubernetes.io/zone",
		"topology.kubernetes.io/zone":      "",
		"example.com/team":                 "",
		"node.kubernetes.io/instance-typo": "node.kubernetes.io/instance-type",
		"":                                 "",
	} {
		if got := Similar(word, known); got != want {
			t.Errorf("Similar(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestReasonPrintsThreeWays(t *testing.T) {
	r := Counted(Requirement, 3, 3, "none of 3 types")
	r.Because = []Reason{Counted(Taint, 2, 3, "2 by taint"), New(Resource, "1 by %s", "cpu")}
	if got, want := r.Line(), "none of 3 types: 2 by taint; 1 by cpu"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
	if got, want := r.Tree(), "none of 3 types\n  2 by taint\n  1 by cpu\n"; got != want {
		t.Errorf("tree %q, want %q", got, want)
	}
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"code":"Requirement","text":"none of 3 types","count":3,"of":3,"because":[{"code":"Taint","text":"2 by taint","count":2,"of":3},{"code":"Resource","text":"1 by cpu"}]}`
	if string(b) != want {
		t.Errorf("JSON %s, want %s", b, want)
	}
}

func TestFiguresAreWrittenInOnePlace(t *testing.T) {
	for got, want := range map[string]string{
		Money(0.0412):                         "$0.0412/h",
		Money(-0.25):                          "-$0.2500/h",
		Money(123.456):                        "$123.46/h",
		Dollars(-12.345):                      "-$12.35",
		Percent(0.775):                        "78%",
		Percent(0.7749):                       "77%",
		Percent(0):                            "0%",
		Count(1, "node"):                      "1 node",
		Count(0, "node"):                      "0 nodes",
		Does(1, "pod", "restart"):             "1 pod restarts",
		Does(2, "pod", "restart"):             "2 pods restart",
		Plural(3, "pod is", "pods are"):       "3 pods are",
		List([]string{"a", "b"}, 2):           "a, b",
		List([]string{"a", "b", "c", "d"}, 2): "a, b and 2 more",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
