package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	"karpenter/internal/cloud/aws/awsplug"
)

// printProposals writes YAML that can be applied, with comments that say what each object stands for.
func printProposals(w io.Writer, proposals []*proposal, lost []string, cost *comparison) error {
	var b strings.Builder
	if cost != nil {
		cost.comment(&b)
	}
	for _, line := range lost {
		fmt.Fprintf(&b, "# Not carried over: %s.\n", line)
	}
	for i, p := range proposals {
		if i > 0 || b.Len() > 0 {
			b.WriteString("---\n")
		}
		p.comment(&b)
		objects := []any{p.class, p.pool}
		if p.shared {
			objects = objects[1:]
		}
		for j, object := range objects {
			if j > 0 {
				b.WriteString("---\n")
			}
			raw, err := manifest(object)
			if err != nil {
				return fmt.Errorf("print proposal: %w", err)
			}
			b.Write(raw)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print proposal: %w", err)
	}
	return nil
}

// comment says where a pool comes from, and what of that is not in it.
func (p *proposal) comment(b *strings.Builder) {
	for i := range p.groups {
		g := &p.groups[i]
		fmt.Fprintf(b, "# %s, from %s %s (%s)\n", p.pool.Name, g.Kind, g.Name, sizes(g))
	}
	if p.shared {
		fmt.Fprintf(b, "# Its EC2NodeClass is %s, above.\n", p.class.Name)
	}
	fmt.Fprintf(b, "# Pods that choose nodes by a label of the group, such as eks.amazonaws.com/nodegroup, choose karpenter.sh/nodepool: %s instead.\n", p.pool.Name)
	if len(p.left) == 0 {
		return
	}
	b.WriteString("# Not carried over:\n")
	for _, line := range p.left {
		fmt.Fprintf(b, "#   - %s\n", strings.Join(strings.Fields(line), " "))
	}
}

func sizes(g *awsplug.NodeGroup) string {
	if g.Max == 0 {
		return count(int(g.Now), "node", "nodes") + " now"
	}
	return fmt.Sprintf("%d to %s, %d now", g.Min, count(int(g.Max), "node", "nodes"), g.Now)
}

// manifest is an object as a user would write it: without status and what a server fills in.
func manifest(object any) ([]byte, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	delete(fields, "status")
	if meta, ok := fields["metadata"].(map[string]any); ok {
		delete(meta, "creationTimestamp")
	}
	return yaml.Marshal(prune(fields))
}

// prune leaves out objects that are empty, which say nothing.
func prune(fields map[string]any) map[string]any {
	for key, value := range fields {
		if inner, ok := value.(map[string]any); ok && len(prune(inner)) == 0 {
			delete(fields, key)
		}
	}
	return fields
}
