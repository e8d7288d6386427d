package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"karpenter/cloud"
	"karpenter/internal/cli/builtin"
	"karpenter/internal/state"
)

// known are the providers that commands know of by themselves; the first is that of whatever names none.
var known = builtin.Clouds()

// classKinds are their kinds of node classes.
func classKinds() []*cloud.Kind {
	var all []*cloud.Kind
	for i := range known {
		all = append(all, known[i].Kind)
	}
	return all
}

// knownLabels says which labels providers resolve, and under which other keys they know them.
var knownLabels = func() state.Options {
	o := state.Options{Aliases: map[string]string{}, NodeOverlays: true}
	for _, k := range classKinds() {
		maps.Copy(o.Aliases, k.Aliases)
		o.ProviderDomains = append(o.ProviderDomains, k.Domains...)
	}
	return o
}()

// kindNamed is the kind of an object's apiVersion and kind; of one without an apiVersion, the first of that name. nil if it is no node
// class.
func kindNamed(apiVersion, kind string) *cloud.Kind {
	gv, err := schema.ParseGroupVersion(apiVersion)
	for _, k := range classKinds() {
		if k.GroupVersionKind.Kind == kind && (apiVersion == "" || err == nil && gv.Group == k.Group) {
			return k
		}
	}
	return nil
}

// readClass reads a node class.
func readClass(kind *cloud.Kind, raw []byte) (cloud.KnownClass, error) {
	class := cloud.KnownClass{Kind: kind, NodeClass: kind.New()}
	if err := json.Unmarshal(raw, class.NodeClass); err != nil {
		return class, fmt.Errorf("%s %q: %w", kind.GroupVersionKind.Kind, class.GetName(), err)
	}
	return class, nil
}

// classPath is where the API server lists the classes of a kind.
func classPath(k *cloud.Kind) string {
	return strings.Join([]string{"/apis", k.Group, k.Version, k.Resource}, "/")
}
