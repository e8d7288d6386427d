package conversion

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const gitopsPool = `
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: gitops}
spec:
  template: {spec: {requirements: [], nodeClassRef: {name: default}, kubelet: {maxPods: 20}}}
  limits: {cpu: 1000}
  disruption: {consolidationPolicy: WhenUnderutilized, consolidateAfter: 30s, budgets: [{nodes: "0", schedule: "0 9-17 * * 1-5"}]}
`

// TestGitOps_SeesNoDifference: tools that compare a v1beta1 manifest with the cluster, or apply it over and over, find it in place.
func TestGitOps_SeesNoDifference(t *testing.T) {
	c := shared
	for _, how := range [][]string{{"apply"}, {"apply", "--server-side"}} {
		t.Run(strings.Join(how, " "), func(t *testing.T) {
			written := parse(t, gitopsPool)
			c.cleanup(t, object("karpenter.sh/v1beta1", "NodePool", "gitops", nil))
			for range 2 {
				c.kubectl(t, gitopsPool, append(how, "-f", "-")...)
			}
			// The owners' records are rewritten shortly after a write; between diff's two reads that is another version of the object.
			pool := c.awaitOwners(t, object("karpenter.sh/v1beta1", "NodePool", "gitops", nil))
			if diff, err := c.Kubectl(t.Context(), gitopsPool, append([]string{"diff", "-f", "-"}, how[1:]...)...); err != nil || diff != "" {
				t.Errorf("kubectl diff: %v\n%s", err, diff)
			}
			// A controller that works in v1 writes the status, and another manager a label; neither is a difference to the author.
			pool.Object["status"] = tree{"nodes": int64(1)}
			if err := c.Client.Status().Update(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			c.kubectl(t, "", "label", "nodepool", "gitops", "a=b")
			c.kubectl(t, gitopsPool, append(how, "-f", "-")...)
			read := c.get(t, "nodepools.v1beta1.karpenter.sh", "gitops")
			if diff := cmp.Diff(written["spec"], read.Object["spec"]); diff != "" || read.GetLabels()["a"] != "b" {
				t.Errorf("labels %v\n%s", read.GetLabels(), diff)
			}
			// Removing a field from the manifest removes it from the cluster.
			less := strings.Replace(gitopsPool, "  limits: {cpu: 1000}\n", "", 1)
			c.kubectl(t, less, append(how, "-f", "-")...)
			if limits := at(c.get(t, "nodepool", "gitops"), "limits"); limits != nil {
				t.Errorf("limits %v", limits)
			}
		})
	}
}
