package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/internal/cli/builtin"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

// defaultRegion is assumed of a cluster whose nodes and pools name none.
const defaultRegion = "us-east-1"

// facts is what the built-in catalogue depends on.
type facts struct {
	region  string
	guessed bool
	zones   []string
	// classes are those of the list, of which there are listed, and then plain ones for names that it does not explain.
	classes []*awsv1.EC2NodeClass
	listed  int
}

// readFacts finds region, zones and node classes in a Kubernetes List.
func readFacts(list []byte) (*facts, error) {
	var doc struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(list, &doc); err != nil {
		return nil, fmt.Errorf("read list: %w", err)
	}
	f, names := &facts{}, map[string]bool{state.AnyClass: true} // for pools of -f, and for nodes that no pool made
	seen := places{regions: map[string]int{}, zones: map[string]bool{}}
	for _, raw := range doc.Items {
		if bytes.Contains(raw[:min(len(raw), 64)], []byte(`"kind":"Pod",`)) {
			continue // most of the list, and of no interest
		}
		var item struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
			Spec json.RawMessage `json:"spec"`
		}
		if json.Unmarshal(raw, &item) != nil {
			continue // whoever reads the objects says what is wrong with them
		}
		switch item.Kind {
		case "Node", "NodeClaim":
			seen.regions[item.Metadata.Labels[world.LabelRegion]]++
			seen.zones[item.Metadata.Labels[world.LabelZone]] = true
		case "NodePool":
			var spec poolNames
			if json.Unmarshal(item.Spec, &spec) == nil {
				names[spec.Template.Spec.NodeClassRef.Name] = true
				seen.note(&spec)
			}
		case awsv1.EC2NodeClassKind:
			class := &awsv1.EC2NodeClass{}
			if err := json.Unmarshal(raw, class); err != nil {
				return nil, fmt.Errorf("EC2NodeClass %q: %w", class.Name, err)
			}
			f.classes = append(f.classes, class)
		}
	}
	f.listed = len(f.classes)
	for _, class := range f.classes {
		delete(names, class.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if name != "" {
			f.classes = append(f.classes, &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	}
	seen.settle(f)
	return f, nil
}

// listedClasses are the node classes of a Kubernetes List.
func listedClasses(list []byte) ([]*awsv1.EC2NodeClass, error) {
	f, err := readFacts(list)
	if err != nil {
		return nil, err
	}
	return f.classes[:f.listed], nil
}

// places counts where nodes are and pools may make them.
type places struct {
	regions map[string]int
	zones   map[string]bool
}

// settle decides on the region, and on its zones.
func (p *places) settle(f *facts) {
	delete(p.regions, "")
	delete(p.zones, "")
	f.zones = slices.Sorted(maps.Keys(p.zones))
	if len(p.regions) == 0 {
		for _, z := range f.zones {
			p.regions[strings.TrimRight(z, "abcdef")]++
		}
	}
	for _, r := range slices.Sorted(maps.Keys(p.regions)) {
		if f.region == "" || p.regions[r] > p.regions[f.region] {
			f.region = r
		}
	}
	if f.region == "" {
		f.region, f.guessed = defaultRegion, true
	}
	f.zones = slices.DeleteFunc(f.zones, func(z string) bool { return !strings.HasPrefix(z, f.region) })
}

// poolNames is the part of a pool that names a class, zones and regions.
type poolNames struct {
	Template struct {
		Spec struct {
			NodeClassRef struct {
				Name string `json:"name"`
			} `json:"nodeClassRef"`
			Requirements []struct {
				Key, Operator string
				Values        []string
			} `json:"requirements"`
		} `json:"spec"`
	} `json:"template"`
}

// note takes over the places that a pool asks for.
func (p *places) note(pool *poolNames) {
	for _, r := range pool.Template.Spec.Requirements {
		if r.Operator != "In" {
			continue
		}
		for _, v := range r.Values {
			switch r.Key {
			case world.LabelRegion:
				p.regions[v]++
			case world.LabelZone:
				p.zones[v] = true
			}
		}
	}
}

// builtInCache keeps the catalogue that was worked out last.
type builtInCache struct {
	mu    sync.Mutex
	key   string
	found map[string]*dump.Catalog
	words string
}

// load works the built-in catalogue out, unless the last one was for the same. words says what it is.
func (c *builtInCache) load(ctx context.Context, f *facts) (catalogues map[string]*dump.Catalog, words string, err error) {
	key, err := json.Marshal([]any{f.region, f.zones, f.classes})
	if err != nil {
		return nil, "", fmt.Errorf("reading the built-in catalogue: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.key == string(key) {
		return c.found, c.words, nil
	}
	built, err := builtin.Load(ctx, builtin.Query{Region: f.region, Zones: f.zones, Classes: f.classes})
	if err != nil {
		return nil, "", err
	}
	found := map[string]*dump.Catalog{}
	for name, types := range built.Types {
		found[name] = dump.NewCatalog(types.Resources, types.List)
	}
	words = fmt.Sprintf("prices are the built-in list of %s for %s, spot prices typical ones", built.PricesAt.Format(time.DateOnly), f.region)
	if built.From != f.region {
		words = fmt.Sprintf("prices are the built-in list of %s for %s, as those of %s are not known", built.PricesAt.Format(time.DateOnly), built.From, f.region)
	}
	if f.guessed {
		words += ", as no node says which region this is"
	}
	c.key, c.found, c.words = string(key), found, words
	return found, words, nil
}
